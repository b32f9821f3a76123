import{F as a,H as b}from"/ui/assets/chunk-LCOPDKEM.js";import"/ui/assets/chunk-6ZMBRWBA.js";export{a as Frame,b as startKeys};
