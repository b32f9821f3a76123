import{D as a,F as b}from"/ui/assets/chunk-DIZZCI6F.js";import"/ui/assets/chunk-DLYMYIFN.js";export{a as Frame,b as startKeys};
