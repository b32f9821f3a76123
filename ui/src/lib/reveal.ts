// Values that are shown: each reveal is one audited read; all hide after `reveal_secs`, when the page loses the focus, is hidden, or is printed.
//
// `useRevealed` holds the values of one secret for one screen; they go with the screen. A read is kept while something of it is shown, so that
// revealing a second key of the same version asks nothing new.
import * as en from '../en/lib/reveal.ts';
import { useEffect, useRef, useState } from 'preact/hooks';
import { ApiError, call, type Intent } from './api.ts';
import type { Data, Json } from './json.ts';
import { apiPath, type Place } from './place.ts';
import { cover, uiConfig } from './state.ts';

/** Reads the data of a secret with its intent, numbers as they were written. */
export async function readData(
  place: Place,
  intent: Intent,
  version?: number,
): Promise<{ data: Data; version: number }> {
  const reply = await call<Record<string, any>>('GET', apiPath(place, 'data'), {
    intent,
    exact: true,
    query: { version },
  });
  if (place.mount.version === 1) return { data: reply.data as Data, version: 0 };
  if (reply.data['data'] === null || reply.data['data'] === undefined)
    throw new ApiError(404, [en.thisVersionIsDeleted], 'GET', apiPath(place, 'data'));
  const meta = reply.data['metadata'] as Record<string, Json> | undefined;
  return { data: reply.data['data'] as Data, version: Number(String(meta?.['version'] ?? 0)) };
}

/** The version of a secret whose latest one is deleted, as a refusal to read it tells. */
export const versionOf = (error: ApiError): number =>
  Number(
    String(
      (error.body['data'] as Record<string, any> | null | undefined)?.['metadata']?.version ?? 0,
    ),
  );

/** All keys of a secret. No text, since a key may have any name, or none. */
export const ALL = Symbol('all');

export interface Revealed {
  /** The keys in view, with their values. */
  shown: ReadonlyMap<string, Json>;
  /** When a key hides, in ms. */
  until: number;
  keys: string[] | undefined;
  /** Whether this key is being read, or all of them. */
  isBusy: (what: string | typeof ALL) => boolean;
  error: unknown;
  reveal: (keys: string[] | 'all') => Promise<void>;
  hide: (key?: string) => void;
  /** The value of a key for the clipboard, without showing it. */
  take: (key: string) => Promise<Json | undefined>;
}

export function useRevealed(place: Place, version: number | undefined): Revealed {
  const [shown, setShown] = useState<ReadonlyMap<string, Json>>(new Map());
  const [keys, setKeys] = useState<string[] | undefined>(undefined);
  const [until, setUntil] = useState(0);
  const [busy, setBusy] = useState<string | typeof ALL | undefined>(undefined);
  const [error, setError] = useState<unknown>(undefined);
  const read = useRef<Data | undefined>(undefined);
  const hideAll = (): void => {
    read.current = undefined;
    setShown((old) => (old.size === 0 ? old : new Map()));
  };
  useEffect(() => {
    const onHidden = (): void => {
      if (document.hidden) hideAll();
    };
    addEventListener('blur', hideAll);
    addEventListener('beforeprint', hideAll);
    addEventListener('pagehide', hideAll);
    document.addEventListener('visibilitychange', onHidden);
    return () => {
      removeEventListener('blur', hideAll);
      removeEventListener('beforeprint', hideAll);
      removeEventListener('pagehide', hideAll);
      document.removeEventListener('visibilitychange', onHidden);
      read.current = undefined;
    };
  }, []);
  useEffect(() => {
    if (cover.value) hideAll();
  }, [cover.value]);
  useEffect(() => {
    if (shown.size === 0) return;
    const timer = setTimeout(hideAll, Math.max(0, until - Date.now()));
    return () => clearTimeout(timer);
  }, [until, shown.size > 0]);
  const fetchData = async (intent: Intent): Promise<Data> =>
    (read.current =
      shown.size > 0 && read.current
        ? read.current
        : (await readData(place, intent, version)).data);
  const guard = async <T>(
    what: string | typeof ALL | undefined,
    run: () => Promise<T>,
  ): Promise<T | undefined> => {
    setBusy(what);
    setError(undefined);
    try {
      return await run();
    } catch (caught) {
      setError(caught);
      return undefined;
    } finally {
      setBusy(undefined);
    }
  };
  return {
    shown,
    until,
    keys,
    error,
    isBusy: (what) => busy === what,
    reveal: async (wanted) =>
      void (await guard(wanted === 'all' ? ALL : wanted[0], async () => {
        const data = await fetchData('reveal');
        setKeys(Object.keys(data));
        const next = new Map(shown);
        for (const key of wanted === 'all' ? Object.keys(data) : wanted)
          if (Object.hasOwn(data, key)) next.set(key, data[key] ?? null);
        setUntil(Date.now() + uiConfig.peek().reveal_secs * 1000);
        setShown(next);
      })),
    hide: (key) => {
      if (key === undefined) return hideAll();
      const next = new Map(shown);
      next.delete(key);
      if (next.size === 0) read.current = undefined;
      setShown(next);
    },
    take: (key) =>
      guard(key, async () => {
        const data = await fetchData('copy');
        const value = data[key];
        if (shown.size === 0) read.current = undefined;
        return value;
      }),
  };
}
