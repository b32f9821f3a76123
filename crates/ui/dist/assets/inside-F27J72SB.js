import{D as a,F as b}from"/ui/assets/chunk-MMOWUUQW.js";import"/ui/assets/chunk-QSWRR6VM.js";export{a as Frame,b as startKeys};
