import{ba as x,ca as $,da as b,ea as p,g as O}from"/ui/assets/chunk-HRTKUVWJ.js";var v="Kubernetes Secret",w="no NAME=value",h=e=>`${e} stands twice; the last one counts`,A="an object is expected: names and values, or paths and secrets",E=e=>`${e} is no base64 of text: kept as it is`,k="no JSON",T="a quote is not closed",N="path, key and value are expected";var I=[["env",".env"],["json","JSON"],["yaml","YAML"],["csv","CSV"],["k8s",v]];function C(e){let n={},t=[],r=/^[ \t]*(?:export[ \t]+)?([A-Za-z_][\w.-]*)[ \t]*=[ \t]*(?:"((?:[^"\\]|\\[\s\S])*)"|'([^']*)'|([^\n]*))[ \t]*(?:#[^\n]*)?$/gmy,s=0,a=1;for(;s<e.length;){let c=e.indexOf(`
`,s),l=e.slice(s,c<0?e.length:c);if(/^\s*(#|$)/.test(l)){s+=l.length+1,a+=1;continue}r.lastIndex=s;let m=r.exec(e);if(!m){t.push({line:a,message:w}),s+=l.length+1,a+=1;continue}let[u,i="",o,g,f]=m;Object.hasOwn(n,i)&&t.push({line:a,message:h(i)}),n[i]=o!==void 0?o.replace(/\\([nrt"\\$])/g,(j,d)=>({n:`
`,r:"\r",t:"	"})[d]??d):g??(f??"").replace(/\s+#.*$/,"").trim(),a+=u.split(`
`).length,s+=u.length+1}return{entries:Object.keys(n).length?[{path:"",data:n}]:[],problems:t}}function K(e){if(!/^\s*(export\s+)?[A-Za-z_][\w.-]*\s*=/m.test(e))return;let{entries:n,problems:t}=C(e),r=n[0]?.data;if(!(!r||t.some(s=>s.message==="no NAME=value")))return Object.entries(r).map(([s,a])=>[s,p(a)])}function J(e,n){if(e===null||typeof e!="object"||Array.isArray(e)||!("constructor"in Object(e)||!0))return n.push({line:1,message:A}),[];let t=e,r=a=>a!==null&&typeof a=="object"&&!Array.isArray(a)&&!("text"in a&&a.constructor?.name==="Num");if(t.kind==="Secret"&&(r(t.data)||r(t.stringData)))return[{path:"",data:S(t,n)}];let s=Object.entries(t);return s.length>0&&s.every(([,a])=>r(a))?s.map(([a,c])=>({path:a.replace(/^\/+|\/+$/g,""),data:c})):s.length?[{path:"",data:t}]:[]}function S(e,n){let t={};for(let[r,s]of Object.entries(e.data??{}))try{t[r]=new TextDecoder("utf-8",{fatal:!0}).decode(Uint8Array.from(atob(p(s)),a=>a.charCodeAt(0)))}catch{t[r]=s,n.push({line:1,message:E(r)})}for(let[r,s]of Object.entries(e.stringData??{}))t[r]=p(s);return t}function R(e){let n=[];try{return{entries:J($(e,(t,r)=>n.push({line:r,message:h(t)})),n),problems:n}}catch(t){return{entries:[],problems:[{line:t instanceof x?t.line:1,message:t instanceof Error?t.message:k}]}}}function U(e){let n=[],t=[],r=[],s="",a=!1,c=1,l=1,m=()=>{r.push(s),s="",(r.length>1||r[0]!=="")&&t.push({cells:r,line:l}),r=[],l=c+1};for(let i=0;i<e.length;i+=1){let o=e[i]??"";a?o==='"'?e[i+1]==='"'?(s+='"',i+=1):a=!1:(s+=o,o===`
`&&(c+=1)):o==='"'&&s===""?a=!0:o===","?(r.push(s),s=""):o===`
`?(m(),c+=1):o!=="\r"&&(s+=o)}a&&n.push({line:l,message:T}),(s!==""||r.length>0)&&m();let u=new Map;return t.forEach(({cells:[i="",o,g],line:f},j)=>{if(j===0&&i==="path"&&o==="key")return;if(o===void 0||g===void 0){n.push({line:f,message:N});return}let d=u.get(i)??{path:i.replace(/^\/+|\/+$/g,""),data:{},line:f};Object.hasOwn(d.data,o)&&n.push({line:f,message:h(o)}),d.data[o]=g,u.set(i,d)}),{entries:[...u.values()],problems:n}}function z(e,n=""){return/\.csv$/i.test(n)||/^path,key,value\b/.test(e)?"csv":/^\s*[{[]/.test(e)?"json":/^\s*kind:\s*Secret\b/m.test(e)?"k8s":/\.ya?ml$/i.test(n)||/^[\w.-]+:(\s|$)/m.test(e)?"yaml":"env"}var L=e=>e.replace(/[^A-Za-z0-9_]/g,"_").replace(/^(?=\d)/,"_"),P=e=>Object.entries(e).map(([n,t])=>{let r=p(t);return`${L(n)}=${/^[\w./:@%+,-]*$/.test(r)?r:`"${r.replace(/["\\$]/g,"\\$&").replaceAll(`
`,"\\n").replaceAll("\r","\\r").replaceAll("	","\\t")}"`}`}).join(`
`),_=e=>btoa(Array.from(new TextEncoder().encode(e),n=>String.fromCharCode(n)).join("")),y=e=>JSON.stringify(e),M=e=>/[",\n\r]/.test(e)?`"${e.replaceAll('"','""')}"`:e;function B(e,n){switch(e){case"json":return b(n.length===1&&n[0]?n[0].data:Object.fromEntries(n.map(t=>[t.path,t.data])),2)+`
`;case"env":return n.map(t=>(n.length>1?`# ${t.path}
`:"")+P(t.data)).join(`

`)+`
`;case"csv":return["path,key,value",...n.flatMap(t=>Object.entries(t.data).map(([r,s])=>[t.path,r,p(s)].map(M).join(",")))].join(`
`)+`
`;case"yaml":return n.map(t=>(n.length>1?`${y(t.path)}:
`:"")+Object.entries(t.data).map(([r,s])=>`${n.length>1?"  ":""}${y(r)}: ${b(s)}`).join(`
`)).join(`
`)+`
`;case"k8s":return n.map(t=>`apiVersion: v1
kind: Secret
metadata:
  name: ${(t.path.split("/").at(-1)??O).toLowerCase().replace(/[^a-z0-9.-]/g,"-")}
type: Opaque
data:
${Object.entries(t.data).map(([r,s])=>`  ${y(r)}: ${_(p(s))}`).join(`
`)}
`).join(`---
`)}}function Q(e,n,t="application/octet-stream"){let r=URL.createObjectURL(typeof n=="string"?new Blob([n],{type:t}):n),s=document.createElement("a");s.href=r,s.download=e,s.click(),setTimeout(()=>URL.revokeObjectURL(r),1e4)}export{I as a,C as b,K as c,J as d,R as e,U as f,z as g,P as h,B as i,Q as j};
