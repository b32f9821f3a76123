import{C as a,E as b}from"/ui/assets/chunk-UACAEEF6.js";import"/ui/assets/chunk-JXATH6DO.js";export{a as Frame,b as startKeys};
