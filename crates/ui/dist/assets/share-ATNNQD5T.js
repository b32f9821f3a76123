import{a,b,c,d}from"/ui/assets/chunk-GHY3HHZJ.js";import"/ui/assets/chunk-2L7CZ5YJ.js";import"/ui/assets/chunk-47FJ4BF4.js";export{b as Done,a as linkOf,c as shareSecret,d as shareText};
