import{a,b,c}from"/ui/assets/chunk-Y56LANWM.js";import"/ui/assets/chunk-ZLIKUPJX.js";import"/ui/assets/chunk-XTRVBAWI.js";export{b as Import,c as exportSecrets,a as readMany};
