import{a,b,c,d}from"/ui/assets/chunk-SBKMJ534.js";import"/ui/assets/chunk-DAXQJZZT.js";import"/ui/assets/chunk-ATQRNE3C.js";export{b as Done,a as linkOf,c as shareSecret,d as shareText};
