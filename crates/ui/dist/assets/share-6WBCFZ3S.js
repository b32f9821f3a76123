import{a,b,c,d}from"/ui/assets/chunk-5S2TEHOD.js";import"/ui/assets/chunk-QZUJ6JJA.js";import"/ui/assets/chunk-UOOXW453.js";export{b as Done,a as linkOf,c as shareSecret,d as shareText};
