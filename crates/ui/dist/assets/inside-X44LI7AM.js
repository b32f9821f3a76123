import{D as a,F as b}from"/ui/assets/chunk-DAXQJZZT.js";import"/ui/assets/chunk-ATQRNE3C.js";export{a as Frame,b as startKeys};
