import{a,b,c}from"/ui/assets/chunk-JJZR437H.js";import"/ui/assets/chunk-QZUJ6JJA.js";import"/ui/assets/chunk-UOOXW453.js";export{b as Import,c as exportSecrets,a as readMany};
