import{D as a,F as b}from"/ui/assets/chunk-IVTJKGNR.js";import"/ui/assets/chunk-DQA7NSHP.js";export{a as Frame,b as startKeys};
