import{a,b,c,d}from"/ui/assets/chunk-IXC5IOQD.js";import"/ui/assets/chunk-FP4C2KFE.js";import"/ui/assets/chunk-6ZMBRWBA.js";export{b as Done,a as linkOf,c as shareSecret,d as shareText};
