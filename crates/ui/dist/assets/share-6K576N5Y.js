import{a,b,c,d}from"/ui/assets/chunk-CZQZ3DSJ.js";import"/ui/assets/chunk-4VEV33L4.js";import"/ui/assets/chunk-QSWRR6VM.js";export{b as Done,a as linkOf,c as shareSecret,d as shareText};
