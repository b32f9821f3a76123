import{a,b,c}from"/ui/assets/chunk-LPAKGND4.js";import"/ui/assets/chunk-TBNKTGUG.js";import"/ui/assets/chunk-LVQJ7IQM.js";export{b as Import,c as exportSecrets,a as readMany};
