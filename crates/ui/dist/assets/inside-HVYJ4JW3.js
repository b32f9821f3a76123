import{F as a,H as b}from"/ui/assets/chunk-AW4ELEJE.js";import"/ui/assets/chunk-67VE6S2W.js";export{a as Frame,b as startKeys};
