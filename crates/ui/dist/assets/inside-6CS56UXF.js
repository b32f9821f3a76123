import{F as a,H as b}from"/ui/assets/chunk-FULKTBQV.js";import"/ui/assets/chunk-534PPCEF.js";export{a as Frame,b as startKeys};
