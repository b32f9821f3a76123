import{a,b,c,d}from"/ui/assets/chunk-VX6EY5MI.js";import"/ui/assets/chunk-MMOWUUQW.js";import"/ui/assets/chunk-QSWRR6VM.js";export{b as Done,a as linkOf,c as shareSecret,d as shareText};
