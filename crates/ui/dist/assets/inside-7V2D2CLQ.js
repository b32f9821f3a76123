import{E as a,G as b}from"/ui/assets/chunk-2L7CZ5YJ.js";import"/ui/assets/chunk-47FJ4BF4.js";export{a as Frame,b as startKeys};
