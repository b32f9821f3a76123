import{F as a,H as b}from"/ui/assets/chunk-GT72C6TG.js";import"/ui/assets/chunk-ULQ7WGD6.js";export{a as Frame,b as startKeys};
