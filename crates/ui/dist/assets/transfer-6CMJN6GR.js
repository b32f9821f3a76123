import{a,b,c}from"/ui/assets/chunk-JVCU64KI.js";import"/ui/assets/chunk-KZMUAHIK.js";import"/ui/assets/chunk-5EAF2RUH.js";export{b as Import,c as exportSecrets,a as readMany};
