import{F as a,H as b}from"/ui/assets/chunk-MAJFYCPQ.js";import"/ui/assets/chunk-2K2M2OXG.js";export{a as Frame,b as startKeys};
