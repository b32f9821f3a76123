import{a,b,c,d}from"/ui/assets/chunk-3LVUF3FL.js";import"/ui/assets/chunk-YYNSSUMP.js";import"/ui/assets/chunk-EY2JRKKI.js";export{b as Done,a as linkOf,c as shareSecret,d as shareText};
