// The merge of three: base, theirs, mine. What only one side touched is taken; what both changed is asked.
import { same, type Data, type Json } from '../../lib/json.ts';

export interface Merge {
  merged: Data;
  clashes: {
    key: string;
    base: Json | undefined;
    theirs: Json | undefined;
    mine: Json | undefined;
  }[];
  fromThem: string[];
}

export function mergeThree(base: Data, theirs: Data, mine: Data): Merge {
  const made: Merge = { merged: {}, clashes: [], fromThem: [] };
  for (const key of new Set([...Object.keys(base), ...Object.keys(theirs), ...Object.keys(mine)])) {
    const at = (data: Data): Json | undefined => (Object.hasOwn(data, key) ? data[key] : undefined);
    const [b, t, m] = [at(base), at(theirs), at(mine)];
    let value: Json | undefined;
    if (same(t, b)) value = m;
    else if (same(m, b) || same(m, t)) {
      value = t;
      made.fromThem.push(key);
    } else {
      made.clashes.push({ key, base: b, theirs: t, mine: m });
      continue;
    }
    if (value !== undefined) made.merged[key] = value;
  }
  return made;
}
