import{F as a,H as b}from"/ui/assets/chunk-EZSOMS4A.js";import"/ui/assets/chunk-ULQ7WGD6.js";export{a as Frame,b as startKeys};
