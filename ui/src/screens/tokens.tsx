// Tokens as a tree by parent (contract E7); without that flat, by accessor. Revoking says first how many end with one.
import { useState } from 'preact/hooks';
import { call, tryCall } from '../lib/api.ts';
import { copySecret } from '../lib/clipboard.ts';
import { useAction, useLoad } from '../lib/load.ts';
import { href, route } from '../lib/router.ts';
import { ago, exact, plural, span, visible } from '../lib/time.ts';
import { toast } from '../lib/toasts.ts';
import { confirm, open, Sheet } from '../parts/dialog.tsx';
import { Button, Card, Check, Empty, Failed, Field, FormError, LinkButton, Loading, Note, Page, Tag } from '../parts/ui.tsx';

interface Token { accessor: string; parent?: string; display_name: string; policies: string[]; path: string; type: string; uses?: number; issue?: string; expire?: string | null; children?: number }
const PAGE = 100;
const FLAT_MAX = 200;

/** The children of a token, or those without a parent. */
async function childrenOf(parent: string, after = ''): Promise<{ tokens: Token[]; next: string; isTree: boolean }> {
  const reply = await tryCall<Record<string, any>>('LIST', 'sys/kallisto/tokens', { query: { parent: parent || undefined, after: after || undefined, limit: PAGE } });
  if (reply) {
    const raw = reply.data['tokens'] ?? reply.data['entries'] ?? (reply.data['key_info'] ? Object.values(reply.data['key_info'] as object) : []);
    return { tokens: raw as Token[], next: String(reply.data['next'] ?? ''), isTree: true };
  }
  const { data } = await call<{ keys: string[] }>('LIST', 'auth/token/accessors');
  const tokens = await Promise.all(data.keys.slice(0, FLAT_MAX).map(async (accessor): Promise<Token | undefined> => {
    const one = await tryCall<Record<string, any>>('POST', 'auth/token/lookup-accessor', { body: { accessor } });
    return one ? { accessor, display_name: one.data['display_name'], policies: one.data['policies'] ?? [], path: one.data['path'], type: one.data['type'], uses: one.data['num_uses'], issue: one.data['issue_time'], expire: one.data['expire_time'] } : undefined;
  }));
  return { tokens: tokens.filter((one): one is Token => one !== undefined), next: '', isTree: false };
}

function Row({ one, depth, onGone }: { one: Token; depth: number; onGone: () => void }) {
  const [kids, setKids] = useState<Token[] | undefined>(undefined);
  const revoke = useAction(async () => {
    const dry = await tryCall<{ count?: number; dry_run?: boolean }>('POST', 'auth/token/revoke-accessor', { body: { accessor: one.accessor, dry_run: true } });
    // A server without the preview has revoked it already, and answers without a count.
    if (dry && dry.data.count === undefined) { toast('The token has ended'); return onGone(); }
    const total = dry?.data.count ?? 1 + (one.children ?? 0);
    if (!(await confirm({ title: `Revoke ${one.display_name || one.accessor}?`, text: `${plural(total, 'token')} ${total === 1 ? 'ends' : 'end'}, with the leases they made. This cannot be undone.`, action: `Revoke ${plural(total, 'token')}`, danger: true, ...(total > 25 ? { typed: `revoke ${total}` } : {}) }))) return;
    await call('POST', 'auth/token/revoke-accessor', { body: { accessor: one.accessor } });
    toast(`${plural(total, 'token')} ended`);
    onGone();
  });
  const isRoot = one.policies.includes('root');
  return (
    <>
      <tr><td><span class="tree-row row" style={{ '--depth': depth }}>{(one.children ?? 0) > 0 && <Button size="sm" kind="ghost" icon={kids ? 'down' : 'chev'} label={kids ? 'Close' : `Open ${plural(one.children ?? 0, 'child', 'children')}`} onClick={() => (kids ? setKids(undefined) : void childrenOf(one.accessor).then(({ tokens }) => setKids(tokens)))} />}<b>{visible(one.display_name || '–')}</b>{(one.children ?? 0) > 0 && <Tag>{one.children}</Tag>}{isRoot && <Tag kind="bad">root</Tag>}</span><small class="dim mono">{one.accessor}</small></td><td class="caps">{one.policies.slice(0, 4).map((name) => <a class="tag" href={href(`policies/${name}`)}>{name}</a>)}{one.policies.length > 4 && <Tag>+{one.policies.length - 4}</Tag>}</td><td class="mono dim">{one.path}</td><td>{one.type}{one.uses ? `, ${plural(one.uses, 'use')}` : ''}</td><td>{one.expire ? <span title={exact(one.expire)}>{ago(one.expire)}</span> : <Tag kind="warn">no end</Tag>}</td><td class="right"><Button size="sm" icon="close" busy={revoke.busy} onClick={() => void revoke.run()}>Revoke</Button></td></tr>
      {revoke.error ? <tr><td colSpan={6}><FormError error={revoke.error} /></td></tr> : null}
      {kids?.map((kid) => <Row key={kid.accessor} one={kid} depth={depth + 1} onGone={() => void childrenOf(one.accessor).then(({ tokens }) => setKids(tokens))} />)}
    </>
  );
}

function Make({ close }: { close: () => void }) {
  const [policies, setPolicies] = useState('default');
  const [name, setName] = useState('');
  const [ttl, setTtl] = useState('1h');
  const [uses, setUses] = useState('0');
  const [orphan, setOrphan] = useState(false);
  const [made, setMade] = useState('');
  const run = useAction(async () => { const { auth } = await call('POST', orphan ? 'auth/token/create-orphan' : 'auth/token/create', { body: { policies: policies.split(',').map((one) => one.trim()).filter(Boolean), display_name: name, ttl, num_uses: Number(uses) || 0 } }); setMade(auth?.client_token ?? ''); });
  if (made) return <Sheet title="The token" actions={<Button kind="primary" onClick={close}>Done</Button>}><Note kind="warn">It is shown once, here and now.</Note><div class="row"><Button icon="copy" onClick={() => void copySecret(made, 'Token')}>Copy</Button></div><div class="code mono"><code class="grow">{made}</code></div></Sheet>;
  return <form onSubmit={(event) => { event.preventDefault(); void run.run(); }}><Sheet title="New token" actions={<><Button onClick={close}>Cancel</Button><Button kind="primary" type="submit" busy={run.busy}>Make it</Button></>}><Field label="Policies, with commas" value={policies} onInput={setPolicies} mono autofocus /><Field label="Name" value={name} onInput={setName} hint="optional" /><div class="pair"><Field label="Lives for" value={ttl} onInput={setTtl} mono /><Field label="Uses (0: any)" type="number" min={0} value={uses} onInput={setUses} /></div><Check label="Without a parent" hint="it does not end with yours; needs sudo" checked={orphan} onChange={setOrphan} /><FormError error={run.error} /></Sheet></form>;
}

function One({ accessor }: { accessor: string }) {
  const loaded = useLoad(async () => (await call<Record<string, any>>('POST', 'auth/token/lookup-accessor', { body: { accessor } })).data, [accessor]);
  if (loaded.error) return <Failed error={loaded.error} retry={loaded.reload} />;
  if (!loaded.data) return <Loading />;
  return <Page title={visible(loaded.data['display_name'] || accessor)} sub={<span class="mono">{accessor}</span>} actions={<LinkButton href={href('tokens/')} icon="tree">All tokens</LinkButton>}><Card pad><dl class="kv">{Object.entries(loaded.data).filter(([key]) => key !== 'id').map(([key, value]) => <><dt>{key.replaceAll('_', ' ')}</dt><dd class="mono">{typeof value === 'number' && key.endsWith('ttl') ? span(value) : visible(typeof value === 'string' ? value || '–' : JSON.stringify(value))}</dd></>)}</dl></Card></Page>;
}

export function Tokens() {
  const accessor = route.value.path.replace(/^tokens\/?/, '');
  const [extra, setExtra] = useState<Token[]>([]);
  const [next, setNext] = useState<string | undefined>(undefined);
  const loaded = useLoad(accessor ? undefined : () => childrenOf(''), [accessor]);
  if (accessor) return <One accessor={accessor} />;
  if (loaded.error) return <Failed error={loaded.error} retry={loaded.reload} path="auth/token/accessors" cap="sudo" />;
  const more = next ?? loaded.data?.next ?? '';
  const list = [...(loaded.data?.tokens ?? []), ...extra];
  return (
    <Page title="Tokens" sub={loaded.data?.isTree ? 'By parent: whoever ends takes its children along.' : 'Flat, by accessor.'} actions={<Button kind="primary" icon="plus" need={{ path: 'auth/token/create', cap: ['create', 'update'] }} onClick={() => void open<void>((close) => <Make close={() => { close(); loaded.reload(); }} />)}>New token</Button>}>
      {!loaded.data ? <Loading /> : list.length === 0 ? <Card><Empty icon="tree" title="No token" /></Card> : <Card><div class="scroll-x" tabIndex={0} role="region" aria-label="Tokens"><table class="grid"><thead><tr><th>Token</th><th>Policies</th><th>Made by</th><th>Kind</th><th>Ends</th><th><span class="sr">Actions</span></th></tr></thead><tbody>{list.map((one) => <Row key={one.accessor} one={one} depth={0} onGone={() => { setExtra([]); setNext(undefined); loaded.reload(); }} />)}</tbody></table></div>{more && <div class="pad"><Button onClick={() => void childrenOf('', more).then((page) => { setExtra([...extra, ...page.tokens]); setNext(page.next); })}>More</Button></div>}</Card>}
      <Note>Batch tokens are not kept by the server, so they are not listed and cannot be revoked one by one.</Note>
    </Page>
  );
}
