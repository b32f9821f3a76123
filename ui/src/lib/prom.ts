// The Prometheus text format, as far as this page reads it: samples by name and labels.
export type Sample = Map<string, Map<string, number>>;
const LINE = /^([a-zA-Z_:][\w:]*)(\{[^}]*\})?\s+(\S+)/;
const LINES_MAX = 50_000;

export function parseProm(text: string): Sample {
  const made: Sample = new Map();
  for (const line of text.split('\n', LINES_MAX)) {
    if (line === '' || line.startsWith('#')) continue;
    const found = LINE.exec(line);
    if (!found?.[1]) continue;
    const value = Number(found[3]);
    if (Number.isNaN(value)) continue;
    let of = made.get(found[1]);
    if (!of) made.set(found[1], (of = new Map()));
    of.set(found[2] ?? '', value);
  }
  return made;
}

/** The sum over all labels, or those that match. */
export function sum(name: string, labels?: RegExp): (now: Sample) => number | null {
  return (now) => {
    const of = now.get(name);
    if (!of) return null;
    let total = 0;
    for (const [key, value] of of) if (!labels || labels.test(key)) total += value;
    return total;
  };
}

/** What a counter grew by since the sample before; the caller divides by the seconds between. */
export function rate(
  name: string,
  labels?: RegExp,
): (now: Sample, before: Sample | undefined) => number | null {
  const of = sum(name, labels);
  return function perSecond(now, before) {
    const [a, b] = [before ? of(before) : null, of(now)];
    return a === null || b === null ? null : Math.max(0, b - a);
  };
}
