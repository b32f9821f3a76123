// The forms secrets travel in: `.env`, JSON, YAML, CSV (`path,key,value`) and a Kubernetes Secret. Reading YAML takes a library, so that is in the worker.
import * as common from '../en/common.ts';
import * as en from '../en/lib/formats.ts';
import { asText, JsonError, Num, parseJson, writeJson, type Data, type Json } from './json.ts';

/** A secret to be written: its path below the target, and its data. `''` is the target itself. */
export interface Entry {
  path: string;
  data: Data;
  line?: number;
}
export interface Parsed {
  entries: Entry[];
  problems: { line: number; message: string }[];
}
export type Format = 'env' | 'json' | 'yaml' | 'csv' | 'k8s';
export const FORMATS: readonly (readonly [Format, string])[] = [
  ['env', '.env'],
  ['json', 'JSON'],
  ['yaml', 'YAML'],
  ['csv', 'CSV'],
  ['k8s', en.kubernetesSecret],
];

/** Lines of a `.env`: `export`, quotes, `\n` inside double quotes, values over several lines, comments. */
export function parseEnv(text: string): Parsed {
  const data: Data = {};
  const problems: Parsed['problems'] = [];
  const pattern =
    /^[ \t]*(?:export[ \t]+)?([A-Za-z_][\w.-]*)[ \t]*=[ \t]*(?:"((?:[^"\\]|\\[\s\S])*)"|'([^']*)'|([^\n]*))[ \t]*(?:#[^\n]*)?$/gmy;
  let at = 0;
  let line = 1;
  while (at < text.length) {
    const end = text.indexOf('\n', at);
    const first = text.slice(at, end < 0 ? text.length : end);
    if (/^\s*(#|$)/.test(first)) {
      at += first.length + 1;
      line += 1;
      continue;
    }
    pattern.lastIndex = at;
    const found = pattern.exec(text);
    if (!found) {
      problems.push({ line, message: en.noNameValue });
      at += first.length + 1;
      line += 1;
      continue;
    }
    const [whole, key = '', double, single, bare] = found;
    if (Object.hasOwn(data, key))
      problems.push({ line, message: en.standsTwiceTheLastOneCounts(key) });
    data[key] =
      double !== undefined
        ? double.replace(
            /\\([nrt"\\$])/g,
            (_, character: string) => ({ n: '\n', r: '\r', t: '\t' })[character] ?? character,
          )
        : (single ?? (bare ?? '').replace(/\s+#.*$/, '').trim());
    line += whole.split('\n').length;
    at += whole.length + 1;
  }
  return { entries: Object.keys(data).length ? [{ path: '', data }] : [], problems };
}

/** Pasted lines as pairs; `undefined` if they are not such. */
export function parseEnvLines(text: string): [string, string][] | undefined {
  if (!/^\s*(export\s+)?[A-Za-z_][\w.-]*\s*=/m.test(text)) return undefined;
  const { entries, problems } = parseEnv(text);
  const data = entries[0]?.data;
  if (!data || problems.some((one) => one.message === 'no NAME=value')) return undefined;
  return Object.entries(data).map(([key, value]) => [key, asText(value)]);
}

/** Objects: values all plain make one secret; an object whose members are all objects makes a secret of each, by its path. */
export function entriesOf(value: Json, problems: Parsed['problems']): Entry[] {
  if (value === null || typeof value !== 'object' || Array.isArray(value) || value instanceof Num) {
    problems.push({ line: 1, message: en.anObjectIsExpectedNamesAnd });
    return [];
  }
  const object = value as { [key: string]: Json };
  const isObject = (one: Json | undefined): one is Data =>
    one !== null && typeof one === 'object' && !Array.isArray(one) && !(one instanceof Num);
  if (object['kind'] === 'Secret' && (isObject(object['data']) || isObject(object['stringData'])))
    return [{ path: '', data: kubernetes(object, problems) }];
  const members = Object.entries(object);
  if (members.length > 0 && members.every(([, member]) => isObject(member)))
    return members.map(([path, member]) => ({
      path: path.replace(/^\/+|\/+$/g, ''),
      data: member as Data,
    }));
  return members.length ? [{ path: '', data: object }] : [];
}

function kubernetes(object: Data, problems: Parsed['problems']): Data {
  const made: Data = {};
  for (const [key, value] of Object.entries((object['data'] ?? {}) as Data)) {
    try {
      made[key] = new TextDecoder('utf-8', { fatal: true }).decode(
        Uint8Array.from(atob(asText(value)), (character) => character.charCodeAt(0)),
      );
    } catch {
      made[key] = value;
      problems.push({ line: 1, message: en.isNoBase64OfTextKept(key) });
    }
  }
  for (const [key, value] of Object.entries((object['stringData'] ?? {}) as Data))
    made[key] = asText(value);
  return made;
}

export function parseJsonText(text: string): Parsed {
  const problems: Parsed['problems'] = [];
  try {
    return {
      entries: entriesOf(
        parseJson(text, (key, line) =>
          problems.push({ line, message: en.standsTwiceTheLastOneCounts(key) }),
        ),
        problems,
      ),
      problems,
    };
  } catch (error) {
    return {
      entries: [],
      problems: [
        {
          line: error instanceof JsonError ? error.line : 1,
          message: error instanceof Error ? error.message : en.noJson,
        },
      ],
    };
  }
}

/** Cells of CSV (RFC 4180). */
export function parseCsv(text: string): Parsed {
  const problems: Parsed['problems'] = [];
  const rows: { cells: string[]; line: number }[] = [];
  let cells: string[] = [];
  let cell = '';
  let isQuoted = false;
  let line = 1;
  let begin = 1;
  const finish = (): void => {
    cells.push(cell);
    cell = '';
    if (cells.length > 1 || cells[0] !== '') rows.push({ cells, line: begin });
    cells = [];
    begin = line + 1;
  };
  for (let i = 0; i < text.length; i += 1) {
    const character = text[i] ?? '';
    if (isQuoted) {
      if (character === '"') {
        if (text[i + 1] === '"') {
          cell += '"';
          i += 1;
        } else isQuoted = false;
      } else {
        cell += character;
        if (character === '\n') line += 1;
      }
    } else if (character === '"' && cell === '') isQuoted = true;
    else if (character === ',') {
      cells.push(cell);
      cell = '';
    } else if (character === '\n') {
      finish();
      line += 1;
    } else if (character !== '\r') cell += character;
  }
  if (isQuoted) problems.push({ line: begin, message: en.aQuoteIsNotClosed });
  if (cell !== '' || cells.length > 0) finish();
  const found = new Map<string, Entry>();
  rows.forEach(({ cells: [path = '', key, value], line: at }, i) => {
    if (i === 0 && path === 'path' && key === 'key') return;
    if (key === undefined || value === undefined) {
      problems.push({ line: at, message: en.pathKeyAndValueAreExpected });
      return;
    }
    const entry = found.get(path) ?? { path: path.replace(/^\/+|\/+$/g, ''), data: {}, line: at };
    if (Object.hasOwn(entry.data, key))
      problems.push({ line: at, message: en.standsTwiceTheLastOneCounts(key) });
    entry.data[key] = value;
    found.set(path, entry);
  });
  return { entries: [...found.values()], problems };
}

/** Which form a text has. */
export function guess(text: string, name = ''): Format {
  if (/\.csv$/i.test(name) || /^path,key,value\b/.test(text)) return 'csv';
  if (/^\s*[{[]/.test(text)) return 'json';
  if (/^\s*kind:\s*Secret\b/m.test(text)) return 'k8s';
  if (/\.ya?ml$/i.test(name) || /^[\w.-]+:(\s|$)/m.test(text)) return 'yaml';
  return 'env';
}

/** The name of a variable for a key. */
export const envName = (key: string): string =>
  key.replace(/[^A-Za-z0-9_]/g, '_').replace(/^(?=\d)/, '_');
export const toEnv = (data: Data): string =>
  Object.entries(data)
    .map(([key, value]) => {
      const text = asText(value);
      return `${envName(key)}=${
        /^[\w./:@%+,-]*$/.test(text)
          ? text
          : `"${text
              .replace(/["\\$]/g, '\\$&')
              .replaceAll('\n', '\\n')
              .replaceAll('\r', '\\r')
              .replaceAll('\t', '\\t')}"`
      }`;
    })
    .join('\n');

const base64 = (text: string): string =>
  btoa(Array.from(new TextEncoder().encode(text), (byte) => String.fromCharCode(byte)).join(''));
const yamlText = (text: string): string => JSON.stringify(text);
const csvCell = (text: string): string =>
  /[",\n\r]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text;

/** Secrets as a file. `.env` and Kubernetes hold one, or several one after the other. */
export function write(format: Format, entries: readonly Entry[]): string {
  switch (format) {
    case 'json':
      return (
        writeJson(
          entries.length === 1 && entries[0]
            ? entries[0].data
            : Object.fromEntries(entries.map((entry) => [entry.path, entry.data])),
          2,
        ) + '\n'
      );
    case 'env':
      return (
        entries
          .map((entry) => (entries.length > 1 ? `# ${entry.path}\n` : '') + toEnv(entry.data))
          .join('\n\n') + '\n'
      );
    case 'csv':
      return (
        [
          'path,key,value',
          ...entries.flatMap((entry) =>
            Object.entries(entry.data).map(([key, value]) =>
              [entry.path, key, asText(value)].map(csvCell).join(','),
            ),
          ),
        ].join('\n') + '\n'
      );
    // JSON is YAML (1.2), and keeps numbers as they were.
    case 'yaml':
      return (
        entries
          .map(
            (entry) =>
              (entries.length > 1 ? `${yamlText(entry.path)}:\n` : '') +
              Object.entries(entry.data)
                .map(
                  ([key, value]) =>
                    `${entries.length > 1 ? '  ' : ''}${yamlText(key)}: ${writeJson(value)}`,
                )
                .join('\n'),
          )
          .join('\n') + '\n'
      );
    case 'k8s':
      return entries
        .map(
          (entry) =>
            `apiVersion: v1\nkind: Secret\nmetadata:\n  name: ${(entry.path.split('/').at(-1) ?? common.secret).toLowerCase().replace(/[^a-z0-9.-]/g, '-')}\ntype: Opaque\ndata:\n${Object.entries(
              entry.data,
            )
              .map(([key, value]) => `  ${yamlText(key)}: ${base64(asText(value))}`)
              .join('\n')}\n`,
        )
        .join('---\n');
  }
}
