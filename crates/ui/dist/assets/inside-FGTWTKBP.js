import{F as a,H as b}from"/ui/assets/chunk-22EVCBDO.js";import"/ui/assets/chunk-OVTMH3Q4.js";export{a as Frame,b as startKeys};
