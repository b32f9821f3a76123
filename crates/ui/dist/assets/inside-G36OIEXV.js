import{D as a,F as b}from"/ui/assets/chunk-EX3O7JGQ.js";import"/ui/assets/chunk-HUWZPZLX.js";export{a as Frame,b as startKeys};
