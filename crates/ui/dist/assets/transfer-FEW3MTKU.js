import{a,b,c}from"/ui/assets/chunk-45WIXKRU.js";import"/ui/assets/chunk-GT72C6TG.js";import"/ui/assets/chunk-ULQ7WGD6.js";export{b as Import,c as exportSecrets,a as readMany};
