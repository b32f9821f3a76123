// A shared secret, for somebody without an account. The token is in the fragment; looking at its end opens nothing, so a scanner of links burns nothing.
import { useEffect, useState } from 'preact/hooks';
import { ApiError, call } from '../lib/api.ts';
import { copySecret } from '../lib/clipboard.ts';
import { download } from '../lib/formats.ts';
import { asText, parseJson, writeJson, type Data, type Json } from '../lib/json.ts';
import { useAction } from '../lib/load.ts';
import { unseal } from '../lib/phrase.ts';
import { namespace } from '../lib/state.ts';
import { ago, exact, visible } from '../lib/time.ts';
import { Mark } from '../parts/icons.tsx';
import { Button, Card, Field, FormError, Loading, Note } from '../parts/ui.tsx';

type State = { kind: 'ask' } | { kind: 'looking' } | { kind: 'waiting'; ends: number } | { kind: 'gone'; error: unknown } | { kind: 'sealed' } | { kind: 'phrase'; sealed: string } | { kind: 'open'; data: Data };

export function Open() {
  const [token, setToken] = useState('');
  const [state, setState] = useState<State>({ kind: 'looking' });
  const [phrase, setPhrase] = useState('');
  const [isShown, setShown] = useState(false);
  const look = (given: string): void => {
    setState({ kind: 'looking' });
    call<Record<string, any>>('POST', 'sys/wrapping/lookup', { token: '', quiet: true, body: { token: given } }).then(({ data }) => {
      if (data['state'] === 'opened' || data['state'] === 'expired') return setState({ kind: 'gone', error: new Error(String(data['state'])) });
      setState({ kind: 'waiting', ends: Date.parse(data['creation_time'] as string) + Number(data['creation_ttl']) * 1000 });
    }, (error: unknown) => setState(error instanceof ApiError && error.isSealed ? { kind: 'sealed' } : { kind: 'gone', error }));
  };
  useEffect(() => {
    document.title = 'A shared secret · Kallisto';
    const given = decodeURIComponent(location.hash.slice(1)).trim();
    if (!given) { setState({ kind: 'ask' }); return; }
    setToken(given);
    // The token does not stay in the history.
    history.replaceState(null, '', location.pathname + location.search);
    look(given);
  }, []);
  const run = useAction(async () => {
    try {
      const { data } = await call<Record<string, Json>>('POST', 'sys/wrapping/unwrap', { token, exact: true, quiet: true, body: {} });
      const sealed = data['kallisto_sealed'];
      if (typeof sealed === 'string') return setState({ kind: 'phrase', sealed });
      // A wrapped read of KV version 2 has its data inside, beside its metadata.
      const inner = data['data'];
      setState({ kind: 'open', data: inner !== null && typeof inner === 'object' && !Array.isArray(inner) && 'metadata' in data ? (inner as Data) : data });
    } catch (error) { setState(error instanceof ApiError && error.isSealed ? { kind: 'sealed' } : { kind: 'gone', error }); }
  });
  const decrypt = useAction(async () => { if (state.kind !== 'phrase') return; setState({ kind: 'open', data: parseJson(await unseal(state.sealed, phrase)) as Data }); });
  return (
    <div class="outside"><main class={`gate ${state.kind === 'open' ? 'wide' : ''}`} id="content">
      <div class="gatehead"><Mark /><h1>{state.kind === 'open' ? 'Opened' : 'A secret for you'}</h1></div>
      {state.kind === 'looking' && <Loading rows={2} />}
      {state.kind === 'ask' && <form class="stack" onSubmit={(event) => { event.preventDefault(); const given = token.trim().replace(/^.*#/, ''); setToken(given); look(given); }}><p class="soft">Paste the link or its token.</p><Field label="Link or token" value={token} onInput={setToken} mono masked autofocus /><Button kind="primary" type="submit" class="block" disabled={!token.trim()}>Look</Button></form>}
      {state.kind === 'sealed' && <Note kind="warn">The server is sealed just now. The link still holds: come back a little later.</Note>}
      {state.kind === 'waiting' && <><p class="soft">It opens once, for whoever presses the button first, until <b title={exact(state.ends)}>{exact(state.ends)}</b> ({ago(state.ends)}). Nothing was opened yet.</p><Button kind="primary" class="block" icon="eye" busy={run.busy} onClick={() => void run.run()}>Open it now</Button><Note>Open it where nobody looks over your shoulder, and keep what you need: it cannot be opened again.</Note></>}
      {state.kind === 'gone' && <><Note kind="bad"><b>{state.error instanceof ApiError && state.error.status === 0 ? 'The server cannot be reached.' : 'This link opens nothing any more.'}</b>{!(state.error instanceof ApiError && state.error.status === 0) && <p>It has ended, was withdrawn, or somebody opened it first. If it was not you, tell the sender: what it held has to be changed.</p>}</Note></>}
      {state.kind === 'phrase' && <form class="stack" onSubmit={(event) => { event.preventDefault(); void decrypt.run(); }}><p class="soft">It is encrypted with a phrase that the sender gave you another way.</p><Field label="Phrase" value={phrase} onInput={setPhrase} mono autofocus /><FormError error={decrypt.error} /><Button kind="primary" type="submit" class="block" busy={decrypt.busy} disabled={!phrase}>Decrypt</Button></form>}
      {state.kind === 'open' && <>
        <Card><table class="values"><thead><tr><th>Key</th><th>Value</th><th><Button kind="ghost" size="sm" icon={isShown ? 'eyeoff' : 'eye'} onClick={() => setShown(!isShown)}>{isShown ? 'Hide' : 'Show'}</Button></th></tr></thead><tbody>{Object.entries(state.data).map(([key, value]) => <tr key={key}><td class="mono">{visible(key)}</td><td class="mono">{isShown ? <span class="shown pre">{asText(value)}</span> : <span class="mask">••••••••••••</span>}</td><td><Button kind="ghost" size="sm" icon="copy" label={`Copy ${key}`} onClick={() => void copySecret(asText(value), key)} /></td></tr>)}</tbody></table></Card>
        <div class="row"><Button icon="dl" onClick={() => download('secret.json', writeJson(state.data, 2), 'application/json')}>Download</Button></div>
        <Note kind="warn">The link is used up, and this page forgets the values when it is closed.</Note></>}
      {namespace.value && <p class="dim">Namespace <span class="mono">{namespace.value}</span></p>}
    </main></div>
  );
}
