import{a,b,c}from"/ui/assets/chunk-CLFABZME.js";import"/ui/assets/chunk-7GL5J343.js";import"/ui/assets/chunk-ATQRNE3C.js";export{b as Import,c as exportSecrets,a as readMany};
