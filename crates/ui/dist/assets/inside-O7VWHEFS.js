import{F as a,H as b}from"/ui/assets/chunk-FP4C2KFE.js";import"/ui/assets/chunk-6ZMBRWBA.js";export{a as Frame,b as startKeys};
