import{a,b,c,d}from"/ui/assets/chunk-SAJ7YE77.js";import"/ui/assets/chunk-E75AMDSR.js";import"/ui/assets/chunk-ATQRNE3C.js";export{b as Done,a as linkOf,c as shareSecret,d as shareText};
