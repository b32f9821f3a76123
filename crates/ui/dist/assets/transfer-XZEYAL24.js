import{a,b,c}from"/ui/assets/chunk-POYRZ6QP.js";import"/ui/assets/chunk-GHTLVBC5.js";import"/ui/assets/chunk-UM7FOWW4.js";export{b as Import,c as exportSecrets,a as readMany};
