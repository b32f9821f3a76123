import{a,b,c}from"/ui/assets/chunk-SMP22MXU.js";import"/ui/assets/chunk-7PYVPT42.js";import"/ui/assets/chunk-ULQ7WGD6.js";export{b as Import,c as exportSecrets,a as readMany};
