// Transit: keys with their versions, and a bench to try them. Plaintext stays in the page.
import { useState } from 'preact/hooks';
import { call } from '../lib/api.ts';
import { copy } from '../lib/clipboard.ts';
import { useAction, useLoad } from '../lib/load.ts';
import { allMounts } from '../lib/place.ts';
import { go, href, route } from '../lib/router.ts';
import { ago, visible } from '../lib/time.ts';
import { toast } from '../lib/toasts.ts';
import { confirm, open, Sheet } from '../parts/dialog.tsx';
import { Icon } from '../parts/icons.tsx';
import { Button, Card, Check, Empty, Failed, Field, FormError, LinkButton, Loading, Page, Segments, Select, Tag } from '../parts/ui.tsx';

const TYPES = ['aes256-gcm96', 'aes128-gcm96', 'chacha20-poly1305', 'ed25519', 'ecdsa-p256', 'ecdsa-p384', 'ecdsa-p521', 'rsa-2048', 'rsa-3072', 'rsa-4096', 'hmac'] as const;
const toBase64 = (text: string): string => btoa(Array.from(new TextEncoder().encode(text), (byte) => String.fromCharCode(byte)).join(''));
const fromBase64 = (text: string): string => { const bytes = Uint8Array.from(atob(text), (character) => character.charCodeAt(0)); try { return new TextDecoder('utf-8', { fatal: true }).decode(bytes); } catch { return text; } };

export function Transit() {
  const text = route.value.path.replace(/^transit\/?/, '');
  const mounts = useLoad(async () => (await allMounts()).secret.filter((mount) => mount.type === 'transit'), []);
  if (mounts.error) return <Failed error={mounts.error} retry={mounts.reload} />;
  if (!mounts.data) return <Loading />;
  const mount = mounts.data.find((one) => text.startsWith(one.path));
  if (mount) { const key = text.slice(mount.path.length); return key ? <Key key={text} mount={mount.path} name={key} /> : <Keys key={mount.path} mount={mount.path} />; }
  return <Page title="Transit" sub="Encryption, signatures and codes as a service: the keys never leave the server.">{mounts.data.length === 0 ? <Card><Empty icon="bolt" title="No transit mount is reachable" command="kallisto secrets enable transit" /></Card> : <Card><ul class="mounts">{mounts.data.map((one) => <li key={one.path}><a href={href(`transit/${one.path}`)}><Icon name="bolt" small={false} /><span class="grow"><b class="mono">{one.path}</b><small class="dim">{visible(one.description)}</small></span><Icon name="chev" /></a></li>)}</ul></Card>}</Page>;
}

function Keys({ mount }: { mount: string }) {
  const loaded = useLoad(async () => (await call<{ keys?: string[] }>('LIST', `${mount}keys`).catch((error: { status?: number }) => { if (error.status === 404) return { data: { keys: [] as string[] } }; throw error; })).data.keys ?? [], [mount]);
  if (loaded.error) return <Failed error={loaded.error} retry={loaded.reload} path={`${mount}keys`} cap="list" />;
  const make = (): void => void open<string>((close) => <New mount={mount} close={close} />).then((name) => { if (name) void go(href(`transit/${mount}${name}`)); });
  return <Page title={<span class="mono">{mount}</span>} actions={<Button kind="primary" icon="plus" need={{ path: `${mount}keys/new`, cap: ['create', 'update'] }} onClick={make}>New key</Button>}>{!loaded.data ? <Loading /> : loaded.data.length === 0 ? <Card><Empty icon="bolt" title="No key yet" action={<Button kind="primary" icon="plus" onClick={make}>Make one</Button>} command={`kallisto write -f ${mount}keys/payments`} /></Card> : <Card><ul class="links">{loaded.data.map((name) => <li key={name}><a href={href(`transit/${mount}${name}`)}><Icon name="key" /><span class="mono grow">{visible(name)}</span></a></li>)}</ul></Card>}</Page>;
}

function New({ mount, close }: { mount: string; close: (name?: string) => void }) {
  const [name, setName] = useState('');
  const [type, setType] = useState<(typeof TYPES)[number]>('aes256-gcm96');
  const [derived, setDerived] = useState(false);
  const run = useAction(async () => { await call('POST', `${mount}keys/${name}`, { body: { type, derived } }); close(name); });
  return <form onSubmit={(event) => { event.preventDefault(); void run.run(); }}><Sheet title="New key" actions={<><Button onClick={() => close()}>Cancel</Button><Button kind="primary" type="submit" busy={run.busy} disabled={!name}>Make it</Button></>}><Field label="Name" value={name} onInput={setName} mono autofocus /><Select label="Kind" value={type} onChange={setType} options={TYPES.map((one) => [one, one] as const)} /><Check label="Derived" hint="each request names a context" checked={derived} onChange={setDerived} /><FormError error={run.error} /></Sheet></form>;
}

type Verb = 'encrypt' | 'decrypt' | 'rewrap' | 'sign' | 'verify' | 'hmac';
function Key({ mount, name }: { mount: string; name: string }) {
  const loaded = useLoad(async () => (await call<Record<string, any>>('GET', `${mount}keys/${name}`)).data, [mount, name]);
  const rotate = useAction(async () => { if (await confirm({ title: `Rotate ${name}?`, text: 'A new version encrypts from now on; older ones still decrypt.', action: 'Rotate' })) { await call('POST', `${mount}keys/${name}/rotate`, { body: {} }); toast('Rotated'); loaded.reload(); } });
  if (loaded.error) return <Failed error={loaded.error} retry={loaded.reload} />;
  if (!loaded.data) return <Loading />;
  const data = loaded.data;
  const verbs: Verb[] = [...(data['supports_encryption'] ? (['encrypt', 'decrypt', 'rewrap'] as const) : []), ...(data['supports_signing'] ? (['sign', 'verify'] as const) : []), 'hmac'];
  return (
    <Page title={<span class="mono">{visible(name)}</span>} sub={<span class="mono">{mount}keys/{name}</span>} actions={<><LinkButton href={href(`transit/${mount}`)} icon="key">All keys</LinkButton><Button icon="undo" busy={rotate.busy} need={{ path: `${mount}keys/${name}/rotate`, cap: ['update', 'create'] }} onClick={() => void rotate.run()}>Rotate</Button></>}>
      <FormError error={rotate.error} />
      <div class="two"><Bench mount={mount} name={name} verbs={verbs} /><Card title="Key" pad><dl class="kv"><dt>Kind</dt><dd class="mono">{data['type']}</dd><dt>Version</dt><dd>{data['latest_version']}</dd><dt>Decrypts from</dt><dd>version {data['min_decryption_version']}</dd><dt>Exportable</dt><dd>{data['exportable'] ? <Tag kind="warn">yes</Tag> : 'no'}</dd><dt>May be deleted</dt><dd>{data['deletion_allowed'] ? <Tag kind="warn">yes</Tag> : 'no'}</dd></dl><h3>Versions</h3><ul class="stack">{Object.entries((data['keys'] ?? {}) as Record<string, any>).reverse().slice(0, 12).map(([version, one]) => <li class="row"><b>{version}</b><span class="dim">{ago(typeof one === 'number' ? one * 1000 : (one['creation_time'] as string))}</span></li>)}</ul></Card></div>
    </Page>
  );
}

function Bench({ mount, name, verbs }: { mount: string; name: string; verbs: Verb[] }) {
  const [verb, setVerb] = useState<Verb>(verbs[0] ?? 'hmac');
  const [text, setText] = useState('');
  const [signature, setSignature] = useState('');
  const [result, setResult] = useState('');
  const run = useAction(async () => {
    const input = toBase64(text);
    const body = { encrypt: { plaintext: input }, decrypt: { ciphertext: text }, rewrap: { ciphertext: text }, sign: { input }, verify: { input, signature }, hmac: { input } }[verb];
    const { data } = await call<Record<string, any>>('POST', `${mount}${verb}/${name}`, { body });
    setResult(verb === 'decrypt' ? fromBase64(data['plaintext'] as string) : verb === 'verify' ? (data['valid'] ? 'The signature is valid.' : 'The signature is NOT valid.') : String(data['ciphertext'] ?? data['signature'] ?? data['hmac'] ?? ''));
  });
  return <Card title="Bench" actions={<Segments label="What to do" value={verb} options={verbs.map((one) => [one, one] as const)} onChange={(next) => { setVerb(next); setResult(''); }} />} pad><form class="stack" onSubmit={(event) => { event.preventDefault(); void run.run(); }}><Field label={verb === 'decrypt' || verb === 'rewrap' ? 'Ciphertext' : 'Text'} value={text} onInput={setText} rows={4} mono />{verb === 'verify' && <Field label="Signature" value={signature} onInput={setSignature} mono rows={2} />}<FormError error={run.error} /><div><Button kind="primary" type="submit" busy={run.busy} need={{ path: `${mount}${verb}/${name}`, cap: ['update', 'create'] }} onClick={() => {}}>{verb}</Button></div></form>{result && <div class="code mono"><code class="grow">{visible(result)}</code><Button size="sm" kind="ghost" icon="copy" label="Copy the result" onClick={() => void copy(result, 'Result')} /></div>}</Card>;
}
