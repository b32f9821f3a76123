import{C as a,E as b}from"/ui/assets/chunk-GHTLVBC5.js";import"/ui/assets/chunk-UM7FOWW4.js";export{a as Frame,b as startKeys};
