import{D as a,F as b}from"/ui/assets/chunk-R7MZCT7K.js";import"/ui/assets/chunk-QSWRR6VM.js";export{a as Frame,b as startKeys};
