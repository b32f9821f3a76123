// Reads a file of secrets away from the page. YAML by a library, numbers as they were written.
import * as en from '../en/workers/import.ts';
import { isMap, isScalar, isSeq, parseAllDocuments, type Node } from 'yaml';
import {
  entriesOf,
  parseCsv,
  parseEnv,
  parseJsonText,
  type Format,
  type Parsed,
} from '../lib/formats.ts';
import { Num, writeJson, type Json } from '../lib/json.ts';

const NUMBER = /^-?(?:0|[1-9]\d*)(?:\.\d+)?(?:[eE][+-]?\d+)?$/;
const DEPTH_MAX = 64;

function toJson(node: Node | null | undefined, depth: number): Json {
  if (depth > DEPTH_MAX) throw new Error(en.nestedDeeperThan(DEPTH_MAX));
  if (isMap(node))
    return Object.fromEntries(
      node.items.map((pair) => [
        String((pair.key as { value?: unknown } | null)?.value ?? pair.key),
        toJson(pair.value as Node | null, depth + 1),
      ]),
    );
  if (isSeq(node)) return node.items.map((item) => toJson(item as Node, depth + 1));
  if (isScalar(node)) {
    const { value, source } = node;
    if (value === null || typeof value === 'boolean' || typeof value === 'string') return value;
    if ((typeof value === 'number' || typeof value === 'bigint') && source && NUMBER.test(source))
      return new Num(source);
    return String(source ?? value);
  }
  return null;
}

function parseYaml(text: string): Parsed {
  const made: Parsed = { entries: [], problems: [] };
  // Aliases are counted by the library, so a document cannot grow without bounds.
  for (const document of parseAllDocuments(text, {
    strict: true,
    uniqueKeys: true,
    version: '1.2',
    maxAliasCount: 50,
  } as object)) {
    if (!('errors' in document)) continue;
    for (const error of document.errors)
      made.problems.push({
        line: error.linePos?.[0].line ?? 1,
        message: error.message.split('\n')[0] ?? en.noYaml,
      });
    if (document.errors.length > 0) continue;
    try {
      const value = toJson(document.contents as Node | null, 0);
      const found = entriesOf(value, made.problems);
      const name = (value as { metadata?: { name?: Json } } | null)?.metadata?.name;
      for (const entry of found)
        made.entries.push(
          typeof name === 'string' && entry.path === '' ? { ...entry, path: name } : entry,
        );
    } catch (error) {
      made.problems.push({ line: 1, message: error instanceof Error ? error.message : en.noYaml });
    }
  }
  return made;
}

function parse(format: Format, text: string): Parsed {
  switch (format) {
    case 'env':
      return parseEnv(text);
    case 'csv':
      return parseCsv(text);
    case 'json':
      return parseJsonText(text);
    case 'yaml':
    case 'k8s':
      return parseYaml(text);
  }
}

self.onmessage = (event: MessageEvent<{ format: Format; text: string }>) => {
  const { entries, problems } = parse(
    event.data.format,
    event.data.text.replace(/\r\n?/g, '\n').replace(/^\ufeff/, ''),
  );
  self.postMessage(
    JSON.stringify({
      entries: entries.map((entry) => ({
        path: entry.path,
        line: entry.line,
        text: writeJson(entry.data),
      })),
      problems,
    }),
  );
};
