import{F as a,H as b}from"/ui/assets/chunk-YYNSSUMP.js";import"/ui/assets/chunk-EY2JRKKI.js";export{a as Frame,b as startKeys};
