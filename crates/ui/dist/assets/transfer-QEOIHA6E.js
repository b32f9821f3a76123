import{a,b,c}from"/ui/assets/chunk-GR4T2LD5.js";import"/ui/assets/chunk-NMMFI2QX.js";import"/ui/assets/chunk-56Y23NVI.js";export{b as Import,c as exportSecrets,a as readMany};
