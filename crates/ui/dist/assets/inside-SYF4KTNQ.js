import{C as a,E as b}from"/ui/assets/chunk-AB3VSXAY.js";import"/ui/assets/chunk-SIDKRR4V.js";export{a as Frame,b as startKeys};
