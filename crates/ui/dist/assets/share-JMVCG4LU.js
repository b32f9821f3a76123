import{a,b,c,d}from"/ui/assets/chunk-PRJ4T4AN.js";import"/ui/assets/chunk-2X4D5LIB.js";import"/ui/assets/chunk-POYADJVM.js";export{b as Done,a as linkOf,c as shareSecret,d as shareText};
