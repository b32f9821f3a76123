import{D as a,F as b}from"/ui/assets/chunk-ZLIKUPJX.js";import"/ui/assets/chunk-XTRVBAWI.js";export{a as Frame,b as startKeys};
