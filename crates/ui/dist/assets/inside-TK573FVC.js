import{D as a,F as b}from"/ui/assets/chunk-A5H6MNFI.js";import"/ui/assets/chunk-ZUBWFUAA.js";export{a as Frame,b as startKeys};
