import{a,b,c,d}from"/ui/assets/chunk-SKWTURUI.js";import"/ui/assets/chunk-ZLIKUPJX.js";import"/ui/assets/chunk-XTRVBAWI.js";export{b as Done,a as linkOf,c as shareSecret,d as shareText};
