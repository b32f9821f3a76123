import{a,b,c}from"/ui/assets/chunk-EQFCXPDO.js";import"/ui/assets/chunk-R7MZCT7K.js";import"/ui/assets/chunk-QSWRR6VM.js";export{b as Import,c as exportSecrets,a as readMany};
