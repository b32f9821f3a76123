// Finding names over all mounts: `sys/kallisto/kv/search` mount by mount, pages followed until there are enough hits.
//
// `owner:ada` and other `key:value` words search custom metadata, `in:kv/apps/` narrows to a folder, the rest is a part of a name.
import * as en from '../en/lib/search.ts';
import { ApiError, call } from './api.ts';
import { allMounts } from './place.ts';

export interface Hit {
  place: string;
  why?: string;
}
export interface Found {
  hits: Hit[];
  looked: string;
  refused: string[];
  isCut: boolean;
}
export interface Query {
  name: string;
  within: string;
  metadata: string;
  key: string;
  due: string;
}

/** Splits what was typed. */
export function parseQuery(text: string): Query {
  const made: Query = { name: '', within: '', metadata: '', key: '', due: '' };
  const names: string[] = [];
  const pairs: string[] = [];
  for (const word of text.split(/\s+/).filter(Boolean)) {
    const [, label, value] = /^([\w.-]+):(.+)$/.exec(word) ?? [];
    if (!label || !value) names.push(word);
    else if (label === 'in') made.within = value.replace(/^\/+/, '');
    else if (label === 'key') made.key = value;
    else if (label === 'due') made.due = value.replace(/^</, '');
    else pairs.push(`${label}=${value}`);
  }
  made.name = names.join(' ');
  made.metadata = pairs.join(',');
  return made;
}

const PAGES_MAX = 50;
/** `30d` from now, or a date, as RFC 3339 text. */
export function dueBefore(text: string): string {
  const [, number, unit] = /^(\d+)([dwmy])$/.exec(text) ?? [];
  if (!number || !unit) {
    const date = /^\d{4}-\d{2}-\d{2}/.test(text) ? Date.parse(text) : NaN;
    if (Number.isNaN(date)) throw new Error(en.isNoTime(text));
    return new Date(date).toISOString();
  }
  const days = Number(number) * ({ d: 1, w: 7, m: 30, y: 365 }[unit] ?? 1);
  return new Date(Date.now() + days * 86_400_000).toISOString();
}

export async function search(
  text: string,
  { limit, signal, onHits }: { limit: number; signal: AbortSignal; onHits?: (hits: Hit[]) => void },
): Promise<Found> {
  const query = parseQuery(text);
  const hits: Hit[] = [];
  const refused: string[] = [];
  let pages = 0;
  const roots = query.within
    ? [query.within]
    : (await allMounts()).secret
        .filter((mount) => mount.type === 'kv' || mount.type === 'generic')
        .map((mount) => mount.path);
  for (const root of roots) {
    let next: string | undefined;
    do {
      try {
        const { data }: { data: Record<string, any> } = await call(
          'GET',
          'sys/kallisto/kv/search',
          {
            signal,
            quiet: true,
            query: {
              path: root,
              name: query.name || undefined,
              metadata: query.metadata || undefined,
              key: query.key || undefined,
              due_before: query.due ? dueBefore(query.due) : undefined,
              limit,
              next,
            },
          },
        );
        pages += 1;
        next = (data['next'] as string | undefined) || undefined;
        const list = (data['results'] ??
          data['matches'] ??
          data['names'] ??
          data['paths'] ??
          []) as unknown[];
        for (const one of list) {
          const path =
            typeof one === 'string'
              ? one
              : String(
                  (one as Record<string, unknown>)['path'] ??
                    (one as Record<string, unknown>)['name'] ??
                    '',
                );
          hits.push({ place: path.startsWith(root) ? path : root + path });
        }
        onHits?.([...hits]);
      } catch (error) {
        if (signal.aborted || !(error instanceof ApiError)) throw error;
        refused.push(root);
        next = undefined;
      }
    } while (next && hits.length < limit && pages < PAGES_MAX);
    if (hits.length >= limit) break;
  }
  return {
    hits: hits.slice(0, limit),
    looked: `${roots.length} ${roots.length === 1 ? en.mount : en.mounts}`,
    refused,
    isCut: hits.length >= limit,
  };
}
