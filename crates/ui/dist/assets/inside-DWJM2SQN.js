import{C as a,E as b}from"/ui/assets/chunk-2ISK37A5.js";import"/ui/assets/chunk-LFEUOZGH.js";export{a as Frame,b as startKeys};
