import{D as a,F as b}from"/ui/assets/chunk-BDPIT2MK.js";import"/ui/assets/chunk-GRZPM7GM.js";export{a as Frame,b as startKeys};
