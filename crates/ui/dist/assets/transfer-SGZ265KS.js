import{a,b,c}from"/ui/assets/chunk-46ITY2QG.js";import"/ui/assets/chunk-NAQVAL4I.js";import"/ui/assets/chunk-ULQ7WGD6.js";export{b as Import,c as exportSecrets,a as readMany};
