import{a,b,c,d}from"/ui/assets/chunk-RQN34GF4.js";import"/ui/assets/chunk-INW7WD5R.js";import"/ui/assets/chunk-BSYD6TIM.js";export{b as Done,a as linkOf,c as shareSecret,d as shareText};
