import{a,b,c,d}from"/ui/assets/chunk-BTTSZ5HP.js";import"/ui/assets/chunk-2ISK37A5.js";import"/ui/assets/chunk-LFEUOZGH.js";export{b as Done,a as linkOf,c as shareSecret,d as shareText};
