import{a,b,c}from"/ui/assets/chunk-GFH6WENZ.js";import"/ui/assets/chunk-MMOWUUQW.js";import"/ui/assets/chunk-QSWRR6VM.js";export{b as Import,c as exportSecrets,a as readMany};
