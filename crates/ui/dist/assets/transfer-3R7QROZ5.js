import{a,b,c}from"/ui/assets/chunk-J5HICCYE.js";import"/ui/assets/chunk-IVTJKGNR.js";import"/ui/assets/chunk-DQA7NSHP.js";export{b as Import,c as exportSecrets,a as readMany};
