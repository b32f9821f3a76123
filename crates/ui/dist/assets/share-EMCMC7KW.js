import{a,b,c,d}from"/ui/assets/chunk-CUKIPSPN.js";import"/ui/assets/chunk-NAQVAL4I.js";import"/ui/assets/chunk-ULQ7WGD6.js";export{b as Done,a as linkOf,c as shareSecret,d as shareText};
