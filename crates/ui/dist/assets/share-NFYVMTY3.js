import{a,b,c,d}from"/ui/assets/chunk-JTN5QAN4.js";import"/ui/assets/chunk-NMMFI2QX.js";import"/ui/assets/chunk-56Y23NVI.js";export{b as Done,a as linkOf,c as shareSecret,d as shareText};
