import{a,b,c}from"/ui/assets/chunk-VLM4JGUT.js";import"/ui/assets/chunk-2X4D5LIB.js";import"/ui/assets/chunk-POYADJVM.js";export{b as Import,c as exportSecrets,a as readMany};
