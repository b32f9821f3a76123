import{D as a,F as b}from"/ui/assets/chunk-QZUJ6JJA.js";import"/ui/assets/chunk-UOOXW453.js";export{a as Frame,b as startKeys};
