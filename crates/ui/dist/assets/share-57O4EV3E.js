import{a,b,c,d}from"/ui/assets/chunk-HENN56EJ.js";import"/ui/assets/chunk-MAJFYCPQ.js";import"/ui/assets/chunk-2K2M2OXG.js";export{b as Done,a as linkOf,c as shareSecret,d as shareText};
