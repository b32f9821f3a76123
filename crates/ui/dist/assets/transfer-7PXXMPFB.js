import{a,b,c}from"/ui/assets/chunk-SLKFEETL.js";import"/ui/assets/chunk-UYMVCTML.js";import"/ui/assets/chunk-ATQRNE3C.js";export{b as Import,c as exportSecrets,a as readMany};
