import{D as a,F as b}from"/ui/assets/chunk-4VEV33L4.js";import"/ui/assets/chunk-QSWRR6VM.js";export{a as Frame,b as startKeys};
