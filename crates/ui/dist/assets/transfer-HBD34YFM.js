import{a,b,c}from"/ui/assets/chunk-EMTOT4A7.js";import"/ui/assets/chunk-VTPBNUZV.js";import"/ui/assets/chunk-GLST5BRL.js";export{b as Import,c as exportSecrets,a as readMany};
