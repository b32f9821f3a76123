import{a,b,c,d}from"/ui/assets/chunk-VAUOVNI6.js";import"/ui/assets/chunk-EZSOMS4A.js";import"/ui/assets/chunk-ULQ7WGD6.js";export{b as Done,a as linkOf,c as shareSecret,d as shareText};
