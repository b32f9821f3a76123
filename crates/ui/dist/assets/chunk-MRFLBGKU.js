var s=r=>/^[\w./@:=-]+$/.test(r)?r:`'${r.replaceAll("'","'\\''")}'`;export{s as a};
