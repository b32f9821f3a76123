import{a,b,c}from"/ui/assets/chunk-Y7UFRFII.js";import"/ui/assets/chunk-WSTWTQDR.js";import"/ui/assets/chunk-ETPMOIXU.js";export{b as Import,c as exportSecrets,a as readMany};
