import{a,b,c}from"/ui/assets/chunk-ZLZW6PVB.js";import"/ui/assets/chunk-LCOPDKEM.js";import"/ui/assets/chunk-6ZMBRWBA.js";export{b as Import,c as exportSecrets,a as readMany};
