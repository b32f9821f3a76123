import{a,b,c}from"/ui/assets/chunk-GEWULYPO.js";import"/ui/assets/chunk-LIA7Y2WD.js";import"/ui/assets/chunk-ACVBWMBG.js";export{b as Import,c as exportSecrets,a as readMany};
