import{a,b,c}from"/ui/assets/chunk-2OZJCYBV.js";import"/ui/assets/chunk-EZSOMS4A.js";import"/ui/assets/chunk-ULQ7WGD6.js";export{b as Import,c as exportSecrets,a as readMany};
