import{a,b,c}from"/ui/assets/chunk-W27AVAVD.js";import"/ui/assets/chunk-AB3VSXAY.js";import"/ui/assets/chunk-SIDKRR4V.js";export{b as Import,c as exportSecrets,a as readMany};
