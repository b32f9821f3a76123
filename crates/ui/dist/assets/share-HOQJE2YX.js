import{a,b,c,d}from"/ui/assets/chunk-4B7YXRZH.js";import"/ui/assets/chunk-7PYVPT42.js";import"/ui/assets/chunk-ULQ7WGD6.js";export{b as Done,a as linkOf,c as shareSecret,d as shareText};
