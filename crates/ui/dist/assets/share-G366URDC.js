import{a,b,c,d}from"/ui/assets/chunk-655GXPJ2.js";import"/ui/assets/chunk-EX3O7JGQ.js";import"/ui/assets/chunk-HUWZPZLX.js";export{b as Done,a as linkOf,c as shareSecret,d as shareText};
