import{a,b,c,d}from"/ui/assets/chunk-R66CX2WN.js";import"/ui/assets/chunk-AB3VSXAY.js";import"/ui/assets/chunk-SIDKRR4V.js";export{b as Done,a as linkOf,c as shareSecret,d as shareText};
