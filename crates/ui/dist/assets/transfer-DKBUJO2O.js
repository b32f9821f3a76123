import{a,b,c}from"/ui/assets/chunk-V3GHPYU3.js";import"/ui/assets/chunk-DIZZCI6F.js";import"/ui/assets/chunk-DLYMYIFN.js";export{b as Import,c as exportSecrets,a as readMany};
