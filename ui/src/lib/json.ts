// JSON whose numbers stay as they were written. `1.0` and thirty digits go through the page as text, never through a JavaScript number.
//
// `parseJson` makes a `Num` of each number and refuses what RFC 8259 does not allow; `duplicates` names keys that stand twice, which editors mark.
// Depth is bounded, so hostile text cannot end the stack.
import * as en from '../en/lib/json.ts';

/** A number as it was written. */
export class Num {
  constructor(readonly text: string) {}
  toJSON(): unknown {
    return rawNumber(this.text);
  }
  toString(): string {
    return this.text;
  }
}
export type Json = null | boolean | string | Num | Json[] | { [key: string]: Json };

const DEPTH_MAX = 128;
const rawNumber = (text: string): unknown => Number(text);

export class JsonError extends Error {
  constructor(
    message: string,
    readonly at: number,
    readonly line: number,
    readonly column: number,
  ) {
    super(en.lineColumn(line, column, message));
  }
}

const NUMBER = /-?(?:0|[1-9]\d*)(?:\.\d+)?(?:[eE][+-]?\d+)?/y;
const STRING = /"(?:[^"\\\u0000-\u001f]|\\(?:["\\/bfnrt]|u[0-9a-fA-F]{4}))*"/y;
const BLANK = /[ \t\n\r]*/y;

/** Parses `text`; `onDuplicate` hears of each key that stands twice in an object. */
export function parseJson(text: string, onDuplicate?: (key: string, line: number) => void): Json {
  let at = 0;
  const fail = (message: string): never => {
    const before = text.slice(0, at).split('\n');
    throw new JsonError(message, at, before.length, (before.at(-1)?.length ?? 0) + 1);
  };
  const blank = (): void => {
    BLANK.lastIndex = at;
    BLANK.exec(text);
    at = BLANK.lastIndex;
  };
  const match = (pattern: RegExp): string | undefined => {
    pattern.lastIndex = at;
    const found = pattern.exec(text);
    if (!found) return undefined;
    at = pattern.lastIndex;
    return found[0];
  };
  const string = (): string => {
    const found = match(STRING);
    return found === undefined ? fail(en.aStringIsExpectedOrOne) : (JSON.parse(found) as string);
  };
  const value = (depth: number): Json => {
    if (depth > DEPTH_MAX) fail(en.nestedDeeperThan(DEPTH_MAX));
    blank();
    const first = text[at];
    if (first === '"') return string();
    if (first === '{') return object(depth);
    if (first === '[') return array(depth);
    for (const [word, meaning] of [
      ['true', true],
      ['false', false],
      ['null', null],
    ] as const) {
      if (text.startsWith(word, at)) {
        at += word.length;
        return meaning;
      }
    }
    const number = match(NUMBER);
    return number === undefined
      ? fail(at >= text.length ? en.theTextEndsTooEarly : en.unexpected(JSON.stringify(first)))
      : new Num(number);
  };
  const object = (depth: number): Json => {
    const made: { [key: string]: Json } = Object.create(null) as { [key: string]: Json };
    at += 1;
    blank();
    if (text[at] === '}') {
      at += 1;
      return made;
    }
    for (;;) {
      blank();
      const key = string();
      if (onDuplicate && Object.hasOwn(made, key))
        onDuplicate(key, text.slice(0, at).split('\n').length);
      blank();
      if (text[at] !== ':') fail(en.isExpectedAfterAKey);
      at += 1;
      made[key] = value(depth + 1);
      blank();
      if (text[at] === ',') {
        at += 1;
        continue;
      }
      if (text[at] === '}') {
        at += 1;
        return made;
      }
      fail(en.orIsExpected);
    }
  };
  const array = (depth: number): Json => {
    const made: Json[] = [];
    at += 1;
    blank();
    if (text[at] === ']') {
      at += 1;
      return made;
    }
    for (;;) {
      made.push(value(depth + 1));
      blank();
      if (text[at] === ',') {
        at += 1;
        continue;
      }
      if (text[at] === ']') {
        at += 1;
        return made;
      }
      fail(en.orIsExpected2);
    }
  };
  const made = value(0);
  blank();
  if (at < text.length) fail(en.thereIsMoreAfterTheEnd);
  return made;
}

/** JSON text of a value; `indent` spaces a level, or one line. */
export function writeJson(value: Json, indent = 0, depth = 0): string {
  if (value === null || typeof value === 'boolean') return String(value);
  if (typeof value === 'string') return JSON.stringify(value);
  if (value instanceof Num) return value.text;
  const open = indent ? '\n' + ' '.repeat(indent * (depth + 1)) : '';
  const close = indent ? '\n' + ' '.repeat(indent * depth) : '';
  const join = indent ? ',' : ', ';
  if (Array.isArray(value)) {
    if (value.length === 0) return '[]';
    return `[${open}${value.map((item) => writeJson(item, indent, depth + 1)).join(indent ? join + open : ', ')}${close}]`;
  }
  const keys = Object.keys(value);
  if (keys.length === 0) return '{}';
  const items = keys.map(
    (key) => `${JSON.stringify(key)}: ${writeJson(value[key] ?? null, indent, depth + 1)}`,
  );
  return indent ? `{${open}${items.join(',' + open)}${close}}` : `{ ${items.join(', ')} }`;
}

/** A value as a person types it: a string without quotes, all else as JSON. */
export const asText = (value: Json): string =>
  typeof value === 'string' ? value : writeJson(value);

/** Whether two values are the same: numbers by their text, objects whatever the order of keys. */
export function same(a: Json | undefined, b: Json | undefined): boolean {
  if (a === b) return true;
  if (a === undefined || b === undefined || a === null || b === null) return false;
  if (a instanceof Num || b instanceof Num)
    return a instanceof Num && b instanceof Num && a.text === b.text;
  if (typeof a !== 'object' || typeof b !== 'object') return false;
  if (Array.isArray(a) || Array.isArray(b))
    return (
      Array.isArray(a) &&
      Array.isArray(b) &&
      a.length === b.length &&
      a.every((item, i) => same(item, b[i]))
    );
  const keys = Object.keys(a);
  return (
    keys.length === Object.keys(b).length &&
    keys.every((key) => Object.hasOwn(b, key) && same(a[key], b[key]))
  );
}

/** A secret's data: an object of values. */
export type Data = { [key: string]: Json };
