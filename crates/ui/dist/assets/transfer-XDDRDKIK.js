import{a,b,c}from"/ui/assets/chunk-M74MDMGW.js";import"/ui/assets/chunk-AW4ELEJE.js";import"/ui/assets/chunk-67VE6S2W.js";export{b as Import,c as exportSecrets,a as readMany};
