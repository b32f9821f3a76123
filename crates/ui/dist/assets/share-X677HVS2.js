import{a,b,c,d}from"/ui/assets/chunk-YGRO5X3G.js";import"/ui/assets/chunk-TBNKTGUG.js";import"/ui/assets/chunk-LVQJ7IQM.js";export{b as Done,a as linkOf,c as shareSecret,d as shareText};
