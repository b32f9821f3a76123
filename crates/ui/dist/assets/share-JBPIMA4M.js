import{a,b,c,d}from"/ui/assets/chunk-U7YQYT6X.js";import"/ui/assets/chunk-FULKTBQV.js";import"/ui/assets/chunk-534PPCEF.js";export{b as Done,a as linkOf,c as shareSecret,d as shareText};
