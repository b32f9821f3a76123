import{D as a,F as b}from"/ui/assets/chunk-VTPBNUZV.js";import"/ui/assets/chunk-GLST5BRL.js";export{a as Frame,b as startKeys};
