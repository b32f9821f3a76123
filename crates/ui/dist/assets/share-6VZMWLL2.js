import{a,b,c,d}from"/ui/assets/chunk-CSCP5SAR.js";import"/ui/assets/chunk-KZMUAHIK.js";import"/ui/assets/chunk-5EAF2RUH.js";export{b as Done,a as linkOf,c as shareSecret,d as shareText};
