import{a,b,c,d}from"/ui/assets/chunk-GB7YZXPU.js";import"/ui/assets/chunk-GHTLVBC5.js";import"/ui/assets/chunk-UM7FOWW4.js";export{b as Done,a as linkOf,c as shareSecret,d as shareText};
