import{C as a,E as b}from"/ui/assets/chunk-UYMVCTML.js";import"/ui/assets/chunk-ATQRNE3C.js";export{a as Frame,b as startKeys};
