import{a,b,c,d}from"/ui/assets/chunk-RH747JJK.js";import"/ui/assets/chunk-R7MZCT7K.js";import"/ui/assets/chunk-QSWRR6VM.js";export{b as Done,a as linkOf,c as shareSecret,d as shareText};
