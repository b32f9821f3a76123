import{a,b,c}from"/ui/assets/chunk-EY2ZCIWU.js";import"/ui/assets/chunk-FULKTBQV.js";import"/ui/assets/chunk-534PPCEF.js";export{b as Import,c as exportSecrets,a as readMany};
