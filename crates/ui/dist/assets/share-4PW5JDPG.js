import{a,b,c,d}from"/ui/assets/chunk-CMMH5Y35.js";import"/ui/assets/chunk-LCOPDKEM.js";import"/ui/assets/chunk-6ZMBRWBA.js";export{b as Done,a as linkOf,c as shareSecret,d as shareText};
