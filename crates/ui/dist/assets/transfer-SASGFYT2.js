import{a,b,c}from"/ui/assets/chunk-ZN4TT7PY.js";import"/ui/assets/chunk-E75AMDSR.js";import"/ui/assets/chunk-ATQRNE3C.js";export{b as Import,c as exportSecrets,a as readMany};
