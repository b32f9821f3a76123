// The two workers: their addresses stand in the shell, and the Trusted Types policy lets through nothing else.
import * as en from '../en/lib/workers.ts';
import type { Format, Parsed } from './formats.ts';

interface Factory {
  createPolicy(
    name: string,
    rules: { createScriptURL: (url: string) => string },
  ): { createScriptURL: (url: string) => string };
}
const names = ['import-worker', 'audit-worker'] as const;
export type WorkerName = (typeof names)[number];
const address = (name: WorkerName): string =>
  document.querySelector<HTMLMetaElement>(`meta[name=${name}]`)?.content ?? '';
const factory = (globalThis as { trustedTypes?: Factory }).trustedTypes;
const policy = factory?.createPolicy('kallisto-worker', {
  createScriptURL: (url) => {
    if (names.some((name) => address(name) === url)) return url;
    throw new TypeError(en.noWorkerOfThisPage);
  },
});

export function startWorker(name: WorkerName): Worker {
  const url = address(name);
  return new Worker(policy ? policy.createScriptURL(url) : url, { type: 'module' });
}

const PARSE_MS = 20_000;
/** Parses a file away from the page; a file that takes too long is given up. */
export function parseInWorker(format: Format, text: string): Promise<Parsed> {
  return new Promise((resolve) => {
    const worker = startWorker('import-worker');
    const end = (parsed: Parsed): void => {
      clearTimeout(timer);
      worker.terminate();
      resolve(parsed);
    };
    const timer = setTimeout(
      () => end({ entries: [], problems: [{ line: 1, message: en.itTakesTooLongToRead }] }),
      PARSE_MS,
    );
    worker.onmessage = (event: MessageEvent<string>) => end(revive(event.data));
    worker.onerror = () =>
      end({ entries: [], problems: [{ line: 1, message: en.itCannotBeRead }] });
    worker.postMessage({ format, text });
  });
}

import { parseJson, type Data } from './json.ts';
/** Numbers are objects of ours, which do not go through a message: the data travels as text. */
function revive(text: string): Parsed {
  const { entries, problems } = JSON.parse(text) as {
    entries: { path: string; text: string; line?: number }[];
    problems: Parsed['problems'];
  };
  return {
    entries: entries.map((entry) => ({
      path: entry.path,
      data: parseJson(entry.text) as Data,
      ...(entry.line ? { line: entry.line } : {}),
    })),
    problems,
  };
}
