import{F as a,H as b}from"/ui/assets/chunk-INW7WD5R.js";import"/ui/assets/chunk-BSYD6TIM.js";export{a as Frame,b as startKeys};
