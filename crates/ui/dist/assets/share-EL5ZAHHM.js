import{a,b,c,d}from"/ui/assets/chunk-R63HOGFM.js";import"/ui/assets/chunk-IVTJKGNR.js";import"/ui/assets/chunk-DQA7NSHP.js";export{b as Done,a as linkOf,c as shareSecret,d as shareText};
