import{C as a,E as b}from"/ui/assets/chunk-E75AMDSR.js";import"/ui/assets/chunk-ATQRNE3C.js";export{a as Frame,b as startKeys};
