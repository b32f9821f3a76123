import{D as a,F as b}from"/ui/assets/chunk-WSTWTQDR.js";import"/ui/assets/chunk-ETPMOIXU.js";export{a as Frame,b as startKeys};
