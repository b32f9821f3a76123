import{b as j,c as $,d as h,e as p}from"/ui/assets/chunk-CIUAISGH.js";var J=[["env",".env"],["json","JSON"],["yaml","YAML"],["csv","CSV"],["k8s","Kubernetes Secret"]];function v(t){let n={},e=[],r=/^[ \t]*(?:export[ \t]+)?([A-Za-z_][\w.-]*)[ \t]*=[ \t]*(?:"((?:[^"\\]|\\[\s\S])*)"|'([^']*)'|([^\n]*))[ \t]*(?:#[^\n]*)?$/gmy,s=0,a=1;for(;s<t.length;){let c=t.indexOf(`
`,s),l=t.slice(s,c<0?t.length:c);if(/^\s*(#|$)/.test(l)){s+=l.length+1,a+=1;continue}r.lastIndex=s;let f=r.exec(t);if(!f){e.push({line:a,message:"no NAME=value"}),s+=l.length+1,a+=1;continue}let[u,i="",o,m,g]=f;Object.hasOwn(n,i)&&e.push({line:a,message:`${i} stands twice; the last one counts`}),n[i]=o!==void 0?o.replace(/\\([nrt"\\$])/g,(y,d)=>({n:`
`,r:"\r",t:"	"})[d]??d):m??(g??"").replace(/\s+#.*$/,"").trim(),a+=u.split(`
`).length,s+=u.length+1}return{entries:Object.keys(n).length?[{path:"",data:n}]:[],problems:e}}function S(t){if(!/^\s*(export\s+)?[A-Za-z_][\w.-]*\s*=/m.test(t))return;let{entries:n,problems:e}=v(t),r=n[0]?.data;if(!(!r||e.some(s=>s.message==="no NAME=value")))return Object.entries(r).map(([s,a])=>[s,p(a)])}function O(t,n){if(t===null||typeof t!="object"||Array.isArray(t)||!("constructor"in Object(t)||!0))return n.push({line:1,message:"an object is expected: names and values, or paths and secrets"}),[];let e=t,r=a=>a!==null&&typeof a=="object"&&!Array.isArray(a)&&!("text"in a&&a.constructor?.name==="Num");if(e.kind==="Secret"&&(r(e.data)||r(e.stringData)))return[{path:"",data:w(e,n)}];let s=Object.entries(e);return s.length>0&&s.every(([,a])=>r(a))?s.map(([a,c])=>({path:a.replace(/^\/+|\/+$/g,""),data:c})):s.length?[{path:"",data:e}]:[]}function w(t,n){let e={};for(let[r,s]of Object.entries(t.data??{}))try{e[r]=new TextDecoder("utf-8",{fatal:!0}).decode(Uint8Array.from(atob(p(s)),a=>a.charCodeAt(0)))}catch{e[r]=s,n.push({line:1,message:`${r} is no base64 of text: kept as it is`})}for(let[r,s]of Object.entries(t.stringData??{}))e[r]=p(s);return e}function P(t){let n=[];try{return{entries:O($(t,(e,r)=>n.push({line:r,message:`${e} stands twice; the last one counts`})),n),problems:n}}catch(e){return{entries:[],problems:[{line:e instanceof j?e.line:1,message:e instanceof Error?e.message:"no JSON"}]}}}function C(t){let n=[],e=[],r=[],s="",a=!1,c=1,l=1,f=()=>{r.push(s),s="",(r.length>1||r[0]!=="")&&e.push({cells:r,line:l}),r=[],l=c+1};for(let i=0;i<t.length;i+=1){let o=t[i]??"";a?o==='"'?t[i+1]==='"'?(s+='"',i+=1):a=!1:(s+=o,o===`
`&&(c+=1)):o==='"'&&s===""?a=!0:o===","?(r.push(s),s=""):o===`
`?(f(),c+=1):o!=="\r"&&(s+=o)}a&&n.push({line:l,message:"a quote is not closed"}),(s!==""||r.length>0)&&f();let u=new Map;return e.forEach(({cells:[i="",o,m],line:g},y)=>{if(y===0&&i==="path"&&o==="key")return;if(o===void 0||m===void 0){n.push({line:g,message:"path, key and value are expected"});return}let d=u.get(i)??{path:i.replace(/^\/+|\/+$/g,""),data:{},line:g};Object.hasOwn(d.data,o)&&n.push({line:g,message:`${o} stands twice; the last one counts`}),d.data[o]=m,u.set(i,d)}),{entries:[...u.values()],problems:n}}function L(t,n=""){return/\.csv$/i.test(n)||/^path,key,value\b/.test(t)?"csv":/^\s*[{[]/.test(t)?"json":/^\s*kind:\s*Secret\b/m.test(t)?"k8s":/\.ya?ml$/i.test(n)||/^[\w.-]+:(\s|$)/m.test(t)?"yaml":"env"}var A=t=>t.replace(/[^A-Za-z0-9_]/g,"_").replace(/^(?=\d)/,"_"),k=t=>Object.entries(t).map(([n,e])=>{let r=p(e);return`${A(n)}=${/^[\w./:@%+,-]*$/.test(r)?r:`"${r.replace(/["\\$]/g,"\\$&").replaceAll(`
`,"\\n").replaceAll("\r","\\r").replaceAll("	","\\t")}"`}`}).join(`
`),x=t=>btoa(Array.from(new TextEncoder().encode(t),n=>String.fromCharCode(n)).join("")),b=t=>JSON.stringify(t),E=t=>/[",\n\r]/.test(t)?`"${t.replaceAll('"','""')}"`:t;function N(t,n){switch(t){case"json":return h(n.length===1&&n[0]?n[0].data:Object.fromEntries(n.map(e=>[e.path,e.data])),2)+`
`;case"env":return n.map(e=>(n.length>1?`# ${e.path}
`:"")+k(e.data)).join(`

`)+`
`;case"csv":return["path,key,value",...n.flatMap(e=>Object.entries(e.data).map(([r,s])=>[e.path,r,p(s)].map(E).join(",")))].join(`
`)+`
`;case"yaml":return n.map(e=>(n.length>1?`${b(e.path)}:
`:"")+Object.entries(e.data).map(([r,s])=>`${n.length>1?"  ":""}${b(r)}: ${h(s)}`).join(`
`)).join(`
`)+`
`;case"k8s":return n.map(e=>`apiVersion: v1
kind: Secret
metadata:
  name: ${(e.path.split("/").at(-1)??"secret").toLowerCase().replace(/[^a-z0-9.-]/g,"-")}
type: Opaque
data:
${Object.entries(e.data).map(([r,s])=>`  ${b(r)}: ${x(p(s))}`).join(`
`)}
`).join(`---
`)}}function T(t,n,e="application/octet-stream"){let r=URL.createObjectURL(typeof n=="string"?new Blob([n],{type:e}):n),s=document.createElement("a");s.href=r,s.download=t,s.click(),setTimeout(()=>URL.revokeObjectURL(r),1e4)}export{J as a,v as b,S as c,O as d,P as e,C as f,L as g,k as h,N as i,T as j};
