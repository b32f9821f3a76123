import{E as a,G as b}from"/ui/assets/chunk-QMBINQG3.js";import"/ui/assets/chunk-WXVR5PYI.js";export{a as Frame,b as startKeys};
