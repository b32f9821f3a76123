import{D as a,F as b}from"/ui/assets/chunk-2X4D5LIB.js";import"/ui/assets/chunk-POYADJVM.js";export{a as Frame,b as startKeys};
