import{E as a,G as b}from"/ui/assets/chunk-7PYVPT42.js";import"/ui/assets/chunk-ULQ7WGD6.js";export{a as Frame,b as startKeys};
