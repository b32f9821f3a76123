import{a,b,c,d}from"/ui/assets/chunk-KCAKYGHJ.js";import"/ui/assets/chunk-LIA7Y2WD.js";import"/ui/assets/chunk-ACVBWMBG.js";export{b as Done,a as linkOf,c as shareSecret,d as shareText};
