import{a,b,c}from"/ui/assets/chunk-ZBMPBYHL.js";import"/ui/assets/chunk-UACAEEF6.js";import"/ui/assets/chunk-JXATH6DO.js";export{b as Import,c as exportSecrets,a as readMany};
