import{a,b,c,d}from"/ui/assets/chunk-IJQDV4HW.js";import"/ui/assets/chunk-WSTWTQDR.js";import"/ui/assets/chunk-ETPMOIXU.js";export{b as Done,a as linkOf,c as shareSecret,d as shareText};
