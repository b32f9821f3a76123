import{a,b,c}from"/ui/assets/chunk-2YP7VTX4.js";import"/ui/assets/chunk-22EVCBDO.js";import"/ui/assets/chunk-OVTMH3Q4.js";export{b as Import,c as exportSecrets,a as readMany};
