import{a,b,c,d}from"/ui/assets/chunk-OVC3VUKL.js";import"/ui/assets/chunk-BDPIT2MK.js";import"/ui/assets/chunk-GRZPM7GM.js";export{b as Done,a as linkOf,c as shareSecret,d as shareText};
