// What differs: keys of two versions, and the parts inside a value. Never sent anywhere.
import { asText, same, type Data, type Json } from './json.ts';

export type Change = 'added' | 'removed' | 'changed' | 'same';
export interface Row {
  key: string;
  change: Change;
  old: Json | undefined;
  now: Json | undefined;
}

export function diffData(old: Data, now: Data): Row[] {
  const keys = [...new Set([...Object.keys(old), ...Object.keys(now)])];
  const order: Record<Change, number> = { changed: 0, added: 1, removed: 2, same: 3 };
  return keys
    .map((key): Row => {
      const [a, b] = [
        Object.hasOwn(old, key) ? old[key] : undefined,
        Object.hasOwn(now, key) ? now[key] : undefined,
      ];
      return {
        key,
        old: a,
        now: b,
        change:
          a === undefined ? 'added' : b === undefined ? 'removed' : same(a, b) ? 'same' : 'changed',
      };
    })
    .sort((a, b) => order[a.change] - order[b.change] || a.key.localeCompare(b.key));
}

export interface Part {
  text: string;
  isChanged: boolean;
}

/** The parts of both texts; what stands at both ends is the same, and words between by a longest common subsequence within bounds. */
export function parts(old: string, now: string): [Part[], Part[]] {
  const WORDS_MAX = 400;
  const split = (text: string): string[] => text.match(/\w+|\s+|[^\w\s]/gu) ?? [];
  const [a, b] = [split(old), split(now)];
  let head = 0;
  while (head < a.length && head < b.length && a[head] === b[head]) head += 1;
  let tail = 0;
  while (
    tail < a.length - head &&
    tail < b.length - head &&
    a[a.length - 1 - tail] === b[b.length - 1 - tail]
  )
    tail += 1;
  const [am, bm] = [a.slice(head, a.length - tail), b.slice(head, b.length - tail)];
  const [ka, kb] =
    am.length > WORDS_MAX || bm.length > WORDS_MAX
      ? [am.map(() => false), bm.map(() => false)]
      : common(am, bm);
  const build = (all: string[], kept: boolean[]): Part[] => {
    const made: Part[] = [];
    all.forEach((text, i) => {
      const isChanged = i >= head && i < all.length - tail && !kept[i - head];
      const last = made.at(-1);
      if (last && last.isChanged === isChanged) last.text += text;
      else made.push({ text, isChanged });
    });
    return made;
  };
  return [build(a, ka), build(b, kb)];
}

function common(a: string[], b: string[]): [boolean[], boolean[]] {
  const width = b.length + 1;
  const table = new Uint16Array((a.length + 1) * width);
  const at = (i: number, j: number): number => table[i * width + j] ?? 0;
  for (let i = a.length - 1; i >= 0; i -= 1)
    for (let j = b.length - 1; j >= 0; j -= 1)
      table[i * width + j] =
        a[i] === b[j] ? at(i + 1, j + 1) + 1 : Math.max(at(i + 1, j), at(i, j + 1));
  const [ka, kb] = [a.map(() => false), b.map(() => false)];
  for (let i = 0, j = 0; i < a.length && j < b.length;) {
    if (a[i] === b[j]) {
      ka[i] = true;
      kb[j] = true;
      i += 1;
      j += 1;
    } else if (at(i + 1, j) >= at(i, j + 1)) i += 1;
    else j += 1;
  }
  return [ka, kb];
}

export const counts = (rows: readonly Row[]): Record<Change, number> => ({
  added: 0,
  removed: 0,
  changed: 0,
  same: 0,
  ...Object.fromEntries(
    (['added', 'removed', 'changed', 'same'] as const).map((change) => [
      change,
      rows.filter((row) => row.change === change).length,
    ]),
  ),
});

/** Lines of two texts, for the JSON and `.env` views: unchanged ones are folded by the caller. */
export function lineDiff(old: string, now: string): { mark: ' ' | '+' | '-'; text: string }[] {
  const [a, b] = [old.split('\n'), now.split('\n')];
  const LINES_MAX = 2000;
  if (a.length > LINES_MAX || b.length > LINES_MAX)
    return [
      ...a.map((text) => ({ mark: '-' as const, text })),
      ...b.map((text) => ({ mark: '+' as const, text })),
    ];
  const [ka, kb] = common(a, b);
  const made: { mark: ' ' | '+' | '-'; text: string }[] = [];
  let j = 0;
  a.forEach((text, i) => {
    if (!ka[i]) {
      made.push({ mark: '-', text });
      return;
    }
    while (j < b.length && !kb[j]) made.push({ mark: '+', text: b[j++] ?? '' });
    made.push({ mark: ' ', text });
    j += 1;
  });
  while (j < b.length) made.push({ mark: '+', text: b[j++] ?? '' });
  return made;
}

export const textOf = (value: Json | undefined): string =>
  value === undefined ? '' : asText(value);
