import{a,b,c,d}from"/ui/assets/chunk-DIRZORDW.js";import"/ui/assets/chunk-6UQ77BM4.js";import"/ui/assets/chunk-6ZLXJK3N.js";export{b as Done,a as linkOf,c as shareSecret,d as shareText};
