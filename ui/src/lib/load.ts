// Asking for what a screen shows: old data stays while new is fetched, and what comes too late is dropped.
import { useCallback, useEffect, useRef, useState } from 'preact/hooks';
import { ApiError } from './api.ts';
import { cover, namespace, token } from './state.ts';

export interface Loaded<T> {
  data: T | undefined;
  error: unknown;
  busy: boolean;
  reload: () => void;
}

/** Runs `ask` when one of `on`, the namespace or the session changes; `undefined` asks for nothing. */
export function useLoad<T>(
  ask: ((signal: AbortSignal) => Promise<T>) | undefined,
  on: readonly unknown[],
): Loaded<T> {
  const [state, setState] = useState<{
    data: T | undefined;
    error: unknown;
    busy: boolean;
    key: string;
  }>({ data: undefined, error: undefined, busy: ask !== undefined, key: '' });
  const [turn, setTurn] = useState(0);
  const last = useRef(ask);
  last.current = ask;
  const key = JSON.stringify([...on, namespace.value]);
  useEffect(() => {
    if (!last.current || !token.peek()) return;
    const stop = new AbortController();
    setState((old) =>
      old.key === key
        ? { ...old, busy: true }
        : { data: undefined, error: undefined, busy: true, key },
    );
    last.current(stop.signal).then(
      (data) => {
        if (!stop.signal.aborted) setState({ data, error: undefined, busy: false, key });
      },
      (error: unknown) => {
        if (!stop.signal.aborted)
          setState((old) => ({
            data: old.key === key ? old.data : undefined,
            error,
            busy: false,
            key,
          }));
      },
    );
    return () => stop.abort();
  }, [key, turn, token.value === '', ask === undefined]);
  const reload = useCallback(() => setTurn((count) => count + 1), []);
  return state.key === key
    ? { data: state.data, error: state.error, busy: state.busy, reload }
    : { data: undefined, error: undefined, busy: ask !== undefined, reload };
}

/** An action with a busy flag and what it was refused with. */
export function useAction<A extends unknown[]>(
  run: (...args: A) => Promise<void>,
): { run: (...args: A) => Promise<void>; busy: boolean; error: unknown; clear: () => void } {
  const [busy, setBusy] = useState(false);
  const [error, setError] = useState<unknown>(undefined);
  return {
    busy,
    error,
    clear: () => setError(undefined),
    run: async (...args: A) => {
      setBusy(true);
      setError(undefined);
      // What the cover says already, of a sealed server or of a session that ended, is not said twice, nor left standing once it is gone.
      try {
        await run(...args);
      } catch (caught) {
        if (!(
          cover.peek() &&
          caught instanceof ApiError &&
          (caught.isSealed || caught.status === 403)
        ))
          setError(caught);
      } finally {
        setBusy(false);
      }
    },
  };
}
