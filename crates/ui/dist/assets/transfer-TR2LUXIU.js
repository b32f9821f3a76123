import{a,b,c}from"/ui/assets/chunk-FYDIKYII.js";import"/ui/assets/chunk-YYNSSUMP.js";import"/ui/assets/chunk-EY2JRKKI.js";export{b as Import,c as exportSecrets,a as readMany};
