import{a,b,c,d}from"/ui/assets/chunk-YDNYP73N.js";import"/ui/assets/chunk-UACAEEF6.js";import"/ui/assets/chunk-JXATH6DO.js";export{b as Done,a as linkOf,c as shareSecret,d as shareText};
