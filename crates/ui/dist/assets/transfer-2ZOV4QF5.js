import{a,b,c}from"/ui/assets/chunk-Q3LQERL2.js";import"/ui/assets/chunk-QMBINQG3.js";import"/ui/assets/chunk-WXVR5PYI.js";export{b as Import,c as exportSecrets,a as readMany};
