import{a,b,c}from"/ui/assets/chunk-CY5NELGH.js";import"/ui/assets/chunk-YPRSSK23.js";import"/ui/assets/chunk-GLST5BRL.js";export{b as Import,c as exportSecrets,a as readMany};
