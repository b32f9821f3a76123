import{a,b,c}from"/ui/assets/chunk-3BVIRUW4.js";import"/ui/assets/chunk-INW7WD5R.js";import"/ui/assets/chunk-BSYD6TIM.js";export{b as Import,c as exportSecrets,a as readMany};
