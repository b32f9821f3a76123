import{a,b,c}from"/ui/assets/chunk-PWVTR5MG.js";import"/ui/assets/chunk-6UQ77BM4.js";import"/ui/assets/chunk-6ZLXJK3N.js";export{b as Import,c as exportSecrets,a as readMany};
