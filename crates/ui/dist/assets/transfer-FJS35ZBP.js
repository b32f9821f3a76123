import{a,b,c}from"/ui/assets/chunk-GV6RU5EW.js";import"/ui/assets/chunk-BDPIT2MK.js";import"/ui/assets/chunk-GRZPM7GM.js";export{b as Import,c as exportSecrets,a as readMany};
