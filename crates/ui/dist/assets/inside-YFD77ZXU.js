import{C as a,E as b}from"/ui/assets/chunk-TBNKTGUG.js";import"/ui/assets/chunk-LVQJ7IQM.js";export{a as Frame,b as startKeys};
