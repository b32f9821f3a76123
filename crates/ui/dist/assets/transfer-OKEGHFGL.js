import{a,b,c}from"/ui/assets/chunk-SMJJFPYA.js";import"/ui/assets/chunk-DAXQJZZT.js";import"/ui/assets/chunk-ATQRNE3C.js";export{b as Import,c as exportSecrets,a as readMany};
