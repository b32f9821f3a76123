import{a,b,c}from"/ui/assets/chunk-BMQLN4AZ.js";import"/ui/assets/chunk-FP4C2KFE.js";import"/ui/assets/chunk-6ZMBRWBA.js";export{b as Import,c as exportSecrets,a as readMany};
