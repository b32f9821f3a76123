// What a value looks like, told beside it once it is shown: decoded here in the browser, sent nowhere.
import * as en from '../en/lib/kinds.ts';
import type { Json } from './json.ts';
import { Num } from './json.ts';
import { plural } from './time.ts';

export interface Kind {
  label: string;
  lines?: [string, string][];
}
const decodePart = (part: string): Record<string, unknown> | undefined => {
  try {
    const bytes = Uint8Array.from(
      atob(part.replaceAll('-', '+').replaceAll('_', '/')),
      (character) => character.charCodeAt(0),
    );
    const made: unknown = JSON.parse(new TextDecoder().decode(bytes));
    return made && typeof made === 'object' ? (made as Record<string, unknown>) : undefined;
  } catch {
    return undefined;
  }
};

/** A time of a token; `undefined` for what is none, or none that a calendar has. */
function dateOf(seconds: unknown): Date | undefined {
  const date = new Date(typeof seconds === 'number' ? seconds * 1000 : NaN);
  return Number.isNaN(date.getTime()) ? undefined : date;
}

export function kindOf(value: Json): Kind | undefined {
  if (value === null) return { label: en.nullIt };
  if (value instanceof Num) return { label: en.number };
  if (typeof value === 'boolean') return { label: en.trueOrFalse };
  if (Array.isArray(value)) return { label: en.listOf(value.length) };
  if (typeof value === 'object')
    return { label: en.keysInside(plural(Object.keys(value).length, en.key)) };
  const pem = /-----BEGIN ([A-Z0-9 ]+)-----/.exec(value);
  if (pem) return { label: en.pemBytes(pem[1]?.toLowerCase(), value.length.toLocaleString('en')) };
  const jwt = /^([\w-]+)\.([\w-]+)\.[\w-]*$/.exec(value);
  if (jwt?.[1] && jwt[2] && value.startsWith('ey')) {
    const head = decodePart(jwt[1]);
    const claims = decodePart(jwt[2]);
    if (head && claims) {
      const ends = dateOf(claims['exp']);
      const lines = Object.entries(claims)
        .slice(0, 12)
        .map(([key, claim]): [string, string] => [
          key,
          typeof claim === 'string' ? claim : JSON.stringify(claim),
        ]);
      return {
        label: en.jwt(
          String(head['alg'] ?? ''),
          ends
            ? ` · ${ends.getTime() < Date.now() ? en.expired : en.expires} ${ends.toISOString().slice(0, 16).replace('T', ' ')}`
            : '',
        ),
        lines,
      };
    }
  }
  if (/^[{[]/.test(value.trim())) {
    try {
      JSON.parse(value);
      return { label: en.jsonText };
    } catch {
      /* Only looks like it. */
    }
  }
  if (/^[a-z][a-z0-9+.-]*:\/\/\S+$/i.test(value)) return { label: en.url };
  if (value.includes('\n')) return { label: plural(value.split('\n').length, en.line) };
  return undefined;
}
