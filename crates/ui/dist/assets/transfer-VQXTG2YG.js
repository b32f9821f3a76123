import{a,b,c}from"/ui/assets/chunk-D4J6EG7F.js";import"/ui/assets/chunk-EX3O7JGQ.js";import"/ui/assets/chunk-HUWZPZLX.js";export{b as Import,c as exportSecrets,a as readMany};
