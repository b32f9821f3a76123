import{a,b,c,d}from"/ui/assets/chunk-EHZJOFFD.js";import"/ui/assets/chunk-VTPBNUZV.js";import"/ui/assets/chunk-GLST5BRL.js";export{b as Done,a as linkOf,c as shareSecret,d as shareText};
