import{a,b,c,d}from"/ui/assets/chunk-IALR3RVK.js";import"/ui/assets/chunk-GT72C6TG.js";import"/ui/assets/chunk-ULQ7WGD6.js";export{b as Done,a as linkOf,c as shareSecret,d as shareText};
