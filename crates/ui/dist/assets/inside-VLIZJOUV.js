import{C as a,E as b}from"/ui/assets/chunk-LIA7Y2WD.js";import"/ui/assets/chunk-ACVBWMBG.js";export{a as Frame,b as startKeys};
