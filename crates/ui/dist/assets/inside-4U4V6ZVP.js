import{D as a,F as b}from"/ui/assets/chunk-7GL5J343.js";import"/ui/assets/chunk-ATQRNE3C.js";export{a as Frame,b as startKeys};
