// Following changes: one stream a browser (`sys/kallisto/kv/watch`) by `fetch`, since EventSource cannot send a token. None while the page is hidden.
import { headersOf, urlOf } from './api.ts';
import { namespace, token } from './state.ts';

export interface Change {
  kind: 'put' | 'delete' | 'remove' | 'resync';
  path: string;
  version: number;
}
const AGAIN_MS = 5000;

/** Follows a folder; returns how to stop. The tab that holds the lock streams, others hear of it. */
export function watch(folder: string, onChange: (change: Change) => void): () => void {
  const stop = new AbortController();
  // A folder of another namespace is another folder, whatever its name.
  const ns = namespace.peek();
  const channel = new BroadcastChannel(`kallisto-watch`);
  channel.addEventListener('message', (event) => {
    const data = event.data as { ns: string; folder: string; change: Change };
    if (data.ns === ns && data.folder === folder) onChange(data.change);
  });
  let index = '';
  const stream = async (): Promise<void> => {
    const response = await fetch(
      urlOf('sys/kallisto/kv/watch', { path: folder, index: index || undefined }),
      { headers: headersOf({ ns }), signal: stop.signal, cache: 'no-store', credentials: 'omit' },
    );
    if (!response.ok || !response.body) {
      if (response.status === 403 || response.status === 404) stop.abort();
      return;
    }
    const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
    let rest = '';
    for (;;) {
      const { value, done } = await reader.read();
      if (done) return;
      rest += value;
      for (let end = rest.indexOf('\n\n'); end >= 0; end = rest.indexOf('\n\n')) {
        take(rest.slice(0, end));
        rest = rest.slice(end + 2);
      }
    }
  };
  const take = (block: string): void => {
    const fields = Object.fromEntries(
      block
        .split('\n')
        .filter((line) => line && !line.startsWith(':'))
        .map((line) => {
          const at = line.indexOf(':');
          return [line.slice(0, at), line.slice(at + 1).trim()];
        }),
    );
    if (fields['id']) index = fields['id'];
    const kind = fields['event'] as Change['kind'] | undefined;
    if (kind === 'put' || kind === 'delete' || kind === 'remove' || kind === 'resync') {
      let data: Record<string, any> = {};
      try {
        data = JSON.parse(fields['data'] ?? '{}') as Record<string, any>;
      } catch {
        /* A change without data is one all the same. */
      }
      const change: Change = {
        kind,
        path: String(data['path'] ?? ''),
        version: Number(data['version'] ?? 0),
      };
      onChange(change);
      channel.postMessage({ ns, folder, change });
    }
  };
  const visible = (): Promise<void> =>
    document.hidden
      ? new Promise((resolve) =>
          document.addEventListener('visibilitychange', () => resolve(), { once: true }),
        )
      : Promise.resolve();
  const run = async (): Promise<void> => {
    while (!stop.signal.aborted && token.peek()) {
      await visible();
      try {
        await stream();
      } catch {
        /* Cut, or stopped. */
      }
      // Stopping ends the pause too: the lock has to be free for whoever follows next.
      if (!stop.signal.aborted)
        await new Promise<void>((resolve) => {
          const timer = setTimeout(resolve, AGAIN_MS);
          stop.signal.addEventListener(
            'abort',
            () => {
              clearTimeout(timer);
              resolve();
            },
            { once: true },
          );
        });
    }
  };
  if (navigator.locks)
    void navigator.locks
      .request(`kallisto-watch ${ns} ${folder}`, { signal: stop.signal }, run)
      .catch(() => undefined);
  else void run();
  return () => {
    stop.abort();
    channel.close();
  };
}
