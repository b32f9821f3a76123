import{a,b,c,d}from"/ui/assets/chunk-EGEUM7O2.js";import"/ui/assets/chunk-QMBINQG3.js";import"/ui/assets/chunk-WXVR5PYI.js";export{b as Done,a as linkOf,c as shareSecret,d as shareText};
