import{a,b,c,d}from"/ui/assets/chunk-QKIKKSKW.js";import"/ui/assets/chunk-A5H6MNFI.js";import"/ui/assets/chunk-ZUBWFUAA.js";export{b as Done,a as linkOf,c as shareSecret,d as shareText};
