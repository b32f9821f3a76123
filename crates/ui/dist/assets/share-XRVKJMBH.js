import{a,b,c,d}from"/ui/assets/chunk-XF6F4TF4.js";import"/ui/assets/chunk-DIZZCI6F.js";import"/ui/assets/chunk-DLYMYIFN.js";export{b as Done,a as linkOf,c as shareSecret,d as shareText};
