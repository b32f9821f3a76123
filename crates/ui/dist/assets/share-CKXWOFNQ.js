import{a,b,c,d}from"/ui/assets/chunk-Z2ABUU5T.js";import"/ui/assets/chunk-AW4ELEJE.js";import"/ui/assets/chunk-67VE6S2W.js";export{b as Done,a as linkOf,c as shareSecret,d as shareText};
