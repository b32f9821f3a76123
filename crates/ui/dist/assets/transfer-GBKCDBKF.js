import{a,b,c}from"/ui/assets/chunk-UTSJDX5X.js";import"/ui/assets/chunk-4VEV33L4.js";import"/ui/assets/chunk-QSWRR6VM.js";export{b as Import,c as exportSecrets,a as readMany};
