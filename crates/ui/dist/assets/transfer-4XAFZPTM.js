import{a,b,c}from"/ui/assets/chunk-5FDTYVQF.js";import"/ui/assets/chunk-A5H6MNFI.js";import"/ui/assets/chunk-ZUBWFUAA.js";export{b as Import,c as exportSecrets,a as readMany};
