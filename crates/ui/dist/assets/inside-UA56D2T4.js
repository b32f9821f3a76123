import{F as a,H as b}from"/ui/assets/chunk-KZMUAHIK.js";import"/ui/assets/chunk-5EAF2RUH.js";export{a as Frame,b as startKeys};
