// Reads a file of secrets away from the page. YAML by a library, numbers as they were written.
import * as en from '../en/workers/import.ts';
import {
  isAlias,
  isMap,
  isScalar,
  isSeq,
  parseAllDocuments,
  type Document,
  type Node,
  type YAMLMap,
} from 'yaml';
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
const ALIASES_MAX = 100;

/** What an alias stands for is counted, so that a document cannot grow without bounds. */
interface Reading {
  document: Document;
  aliases: number;
}

function toJson(node: Node | null | undefined, depth: number, reading: Reading): Json {
  if (depth > DEPTH_MAX) throw new Error(en.nestedDeeperThan(DEPTH_MAX));
  if (isAlias(node)) {
    reading.aliases += 1;
    if (reading.aliases > ALIASES_MAX) throw new Error(en.moreAliasesThan(ALIASES_MAX));
    return toJson(node.resolve(reading.document), depth + 1, reading);
  }
  if (isMap(node)) return mapOf(node, depth, reading);
  if (isSeq(node)) return node.items.map((item) => toJson(item as Node, depth + 1, reading));
  if (isScalar(node)) {
    const { value, source } = node;
    if (value === null || typeof value === 'boolean' || typeof value === 'string') return value;
    if ((typeof value === 'number' || typeof value === 'bigint') && source && NUMBER.test(source))
      return new Num(source);
    return String(source ?? value);
  }
  return null;
}

/** An object; keys of its own win over those of what it merges (`<<: *common`). */
function mapOf(node: YAMLMap, depth: number, reading: Reading): Json {
  const merged: [string, Json][] = [];
  const own: [string, Json][] = [];
  for (const pair of node.items) {
    const key = isScalar(pair.key) ? pair.key : undefined;
    const value = toJson(pair.value as Node | null, depth + 1, reading);
    if (key?.value === '<<' && key.type === 'PLAIN') {
      // Of several the first wins.
      for (const part of (Array.isArray(value) ? [...value] : [value]).reverse()) {
        if (part === null || typeof part !== 'object' || Array.isArray(part) || part instanceof Num)
          throw new Error(en.onlyObjectsAreMerged);
        merged.push(...Object.entries(part));
      }
    } else own.push([String(key ? key.value : pair.key), value]);
  }
  return Object.fromEntries([...merged, ...own]);
}

function parseYaml(text: string): Parsed {
  const made: Parsed = { entries: [], problems: [] };
  for (const document of parseAllDocuments(text, {
    strict: true,
    uniqueKeys: true,
    version: '1.2',
  } as object)) {
    if (!('errors' in document)) continue;
    for (const error of document.errors)
      made.problems.push({
        line: error.linePos?.[0].line ?? 1,
        message: error.message.split('\n')[0] ?? en.noYaml,
      });
    if (document.errors.length > 0) continue;
    try {
      const value = toJson(document.contents as Node | null, 0, {
        document: document as Document,
        aliases: 0,
      });
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
