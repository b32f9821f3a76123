import{a,b,c,d}from"/ui/assets/chunk-3HR4D4LJ.js";import"/ui/assets/chunk-22EVCBDO.js";import"/ui/assets/chunk-OVTMH3Q4.js";export{b as Done,a as linkOf,c as shareSecret,d as shareText};
