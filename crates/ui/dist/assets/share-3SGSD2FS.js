import{a,b,c,d}from"/ui/assets/chunk-77AHI7CV.js";import"/ui/assets/chunk-7GL5J343.js";import"/ui/assets/chunk-ATQRNE3C.js";export{b as Done,a as linkOf,c as shareSecret,d as shareText};
