import{D as a,F as b}from"/ui/assets/chunk-NMMFI2QX.js";import"/ui/assets/chunk-56Y23NVI.js";export{a as Frame,b as startKeys};
