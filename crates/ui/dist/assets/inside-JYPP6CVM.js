import{D as a,F as b}from"/ui/assets/chunk-6UQ77BM4.js";import"/ui/assets/chunk-6ZLXJK3N.js";export{a as Frame,b as startKeys};
