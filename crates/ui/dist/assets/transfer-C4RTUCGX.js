import{a,b,c}from"/ui/assets/chunk-LRIUSFWJ.js";import"/ui/assets/chunk-MAJFYCPQ.js";import"/ui/assets/chunk-2K2M2OXG.js";export{b as Import,c as exportSecrets,a as readMany};
