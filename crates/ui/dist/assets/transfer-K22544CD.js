import{a,b,c}from"/ui/assets/chunk-QOAWZIPD.js";import"/ui/assets/chunk-2ISK37A5.js";import"/ui/assets/chunk-LFEUOZGH.js";export{b as Import,c as exportSecrets,a as readMany};
