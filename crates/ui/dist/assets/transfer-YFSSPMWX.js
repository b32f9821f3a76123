import{a,b,c}from"/ui/assets/chunk-NKBLYUC6.js";import"/ui/assets/chunk-2L7CZ5YJ.js";import"/ui/assets/chunk-47FJ4BF4.js";export{b as Import,c as exportSecrets,a as readMany};
