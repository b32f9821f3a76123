// Before there is anything: a new cluster or one to join, its key shares, and unsealing by several people.
import { useEffect, useState } from 'preact/hooks';
import { call } from '../lib/api.ts';
import { copySecret } from '../lib/clipboard.ts';
import { download } from '../lib/formats.ts';
import { useAction } from '../lib/load.ts';
import { go, guard, href, route } from '../lib/router.ts';
import { askServer } from '../lib/server.ts';
import { server } from '../lib/state.ts';
import { plural } from '../lib/time.ts';
import { confirm } from '../parts/dialog.tsx';
import { Icon, Mark } from '../parts/icons.tsx';
import { Button, Card, Field, FormError, LinkButton, Note, Segments, Tag } from '../parts/ui.tsx';

interface Made { keys: string[]; root: string; threshold: number; cluster: string }

function Outside({ title, sub, children, wide }: { title: string; sub?: string; children: preact.ComponentChildren; wide?: boolean }) {
  return <div class="outside"><main class={`gate ${wide ? 'wide' : ''}`} id="content"><div class="gatehead"><Mark /><h1>{title}</h1>{sub && <p class="dim">{sub}</p>}</div>{children}</main></div>;
}

export function Setup() {
  const [how, setHow] = useState<'new' | 'join'>('new');
  const [made, setMade] = useState<Made | undefined>(undefined);
  const [isReady, setReady] = useState(false);
  useEffect(() => { document.title = 'Set up · Kallisto'; void askServer().then((state) => { if (state.initialized && !made) void go(href('login'), true); else setReady(true); }); }, []);
  useEffect(() => {
    guard.value = made ? () => confirm({ title: 'Leave the shares?', text: 'They are shown once. Without enough of them nobody opens this cluster again, and nobody can make them anew.', action: 'Leave', danger: true }).then(async (yes) => yes && confirm({ title: 'All shares are stored?', text: 'Say yes only if each holder has a share, and the root token is kept.', action: 'Yes, all are stored', danger: true })) : undefined;
  }, [made]);
  if (!isReady) return <div class="outside" />;
  if (made) return <Shares made={made} />;
  return (
    <Outside title="Set up Kallisto" sub="This server has no data yet.">
      <Segments label="What to do" value={how} options={[['new', 'A new cluster'], ['join', 'Join one']]} onChange={setHow} />
      {how === 'new' ? <New onMade={setMade} /> : <Join />}
    </Outside>
  );
}

function New({ onMade }: { onMade: (made: Made) => void }) {
  const [shares, setShares] = useState('5');
  const [threshold, setThreshold] = useState('3');
  const isAuto = server.value.type !== undefined && server.value.type !== 'shamir' && server.value.type !== '';
  const run = useAction(async () => {
    const [n, t] = [Number(shares), Number(threshold)];
    const { body } = await call('PUT', 'sys/init', { token: '', ns: '', quiet: true, body: isAuto ? { recovery_shares: n, recovery_threshold: t } : { secret_shares: n, secret_threshold: t } });
    onMade({ keys: (body['keys_base64'] ?? body['recovery_keys_base64'] ?? body['keys'] ?? []) as string[], root: body['root_token'] as string, threshold: t, cluster: server.peek().name || 'kallisto' });
  });
  const [n, t] = [Number(shares), Number(threshold)];
  const wrong = !(n >= 1 && n <= 255 && t >= 1 && t <= n) || (n > 1 && t === 1);
  return (
    <form class="stack" onSubmit={(event) => { event.preventDefault(); if (!wrong) void run.run(); }}>
      <p class="soft">The key of all data is split into shares, one for each holder. {isAuto ? 'This server unseals itself; the shares are for recovery.' : 'After each start so many holders have to give theirs.'}</p>
      <div class="pair"><Field label={isAuto ? 'Recovery shares' : 'Shares'} type="number" min={1} value={shares} onInput={setShares} /><Field label="Needed of them" type="number" min={1} value={threshold} onInput={setThreshold} /></div>
      <Note kind={wrong ? 'warn' : ''}>{wrong ? (n > 1 && t === 1 ? 'With more than one share at least two have to be needed.' : 'Needed are between one and all of the shares.') : <>{plural(n, 'share')}: {n === 1 ? 'one person opens alone; fit for a trial only.' : <>{t} of {n} people have to come together; {n - t === 0 ? 'if one is lost, all is lost.' : `${plural(n - t, 'share')} may be lost.`}</>}</>}</Note>
      <FormError error={run.error} />
      <Button kind="primary" type="submit" class="block" busy={run.busy} disabled={wrong}>Make the cluster</Button>
    </form>
  );
}

function Join() {
  const [address, setAddress] = useState('');
  const [ca, setCa] = useState('');
  const [joinToken, setJoinToken] = useState('');
  const [done, setDone] = useState(false);
  const run = useAction(async () => {
    await call('POST', 'sys/storage/raft/join', { token: '', ns: '', quiet: true, body: { leader_api_addr: address, leader_ca_cert: ca, ...(joinToken ? { join_token: joinToken } : {}) } });
    setDone(true);
  });
  if (done) return <><Note kind="ok">This server joins. It has to be unsealed with shares of that cluster.</Note><LinkButton kind="primary" href={href('unseal')}>Unseal</LinkButton></>;
  return (
    <form class="stack" onSubmit={(event) => { event.preventDefault(); void run.run(); }}>
      <Field label="Address of a server of the cluster" value={address} onInput={setAddress} mono placeholder="https://kallisto-1:8200" required />
      <Field label="Join token" value={joinToken} onInput={setJoinToken} mono hint="optional" />
      <Field label="Its certificate authority (PEM)" value={ca} onInput={setCa} rows={4} mono hint="optional" />
      <FormError error={run.error} />
      <Button kind="primary" type="submit" class="block" busy={run.busy}>Join</Button>
    </form>
  );
}

/** One share at a time to its holder; the root token last; then what to do first. */
function Shares({ made }: { made: Made }) {
  const [at, setAt] = useState(0);
  const [isShown, setShown] = useState(false);
  const [isStored, setStored] = useState(false);
  const total = made.keys.length;
  const isRoot = at === total;
  const text = isRoot ? made.root : (made.keys[at] ?? '');
  const next = (): void => { setShown(false); setStored(false); setAt(at + 1); };
  if (at > total) {
    guard.value = undefined;
    return (
      <Outside title="The cluster is made" wide>
        <ol class="checklist"><li><Icon name="check" /><span>The shares are with their holders; this page has forgotten them.</span></li><li><Icon name="key" /><span><b>Unseal</b> with {made.threshold} of them.</span></li><li><Icon name="audit" /><span>Sign in with the root token and <b>enable an audit device</b>.</span></li><li><Icon name="users" /><span>Make <b>a login and a policy for an administrator</b>.</span></li><li><Icon name="shield" /><span><b>Revoke the root token.</b> A new one can be made by the holders.</span></li></ol>
        <LinkButton kind="primary" href={href('unseal')} class="block">Unseal now</LinkButton>
      </Outside>
    );
  }
  const name = isRoot ? `kallisto-root-token-${made.cluster}.txt` : `kallisto-share-${at + 1}-of-${total}-${made.cluster}.txt`;
  return (
    <Outside title={isRoot ? 'The root token' : `Share ${at + 1} of ${total}`} sub={isRoot ? 'It may do everything. Use it to set up, then revoke it.' : 'For one holder alone. Others look away.'}>
      <div class="code mono share"><code class="grow">{isShown ? text : '••••••••••••••••••••••••••••••••••••••••••••'}</code></div>
      <div class="row wrap"><Button icon={isShown ? 'eyeoff' : 'eye'} onClick={() => setShown(!isShown)}>{isShown ? 'Hide' : 'Reveal'}</Button><Button icon="copy" onClick={() => void copySecret(text, isRoot ? 'Root token' : 'Share').then(() => setStored(true))}>Copy</Button><Button icon="dl" onClick={() => { download(name, isRoot ? `${text}\n` : `Kallisto key share ${at + 1} of ${total} (${made.threshold} needed), cluster ${made.cluster}\n${text}\n`, 'text/plain'); setStored(true); }}>Download</Button><Button icon="file" onClick={() => { setShown(true); setStored(true); setTimeout(() => print(), 50); }}>Print</Button></div>
      <Note>It is shown once, here and now.</Note>
      <label class="check"><input type="checkbox" checked={isStored} onChange={(event) => setStored(event.currentTarget.checked)} /><span>{isRoot ? 'It is stored' : 'Its holder has stored it'}</span></label>
      <Button kind="primary" class="block" disabled={!isStored} onClick={next}>{isRoot ? 'Done' : at + 1 === total ? 'On to the root token' : 'Next share'}</Button>
    </Outside>
  );
}

const POLL_MS = 2000;

/** Entering shares: progress that others' browsers make too, a wrong share, a new start. Calls `onOpen` once the server is open. */
export function UnsealSteps({ onOpen, onEmpty }: { onOpen: () => void; onEmpty?: () => void }) {
  const [share, setShare] = useState('');
  const [spoiled, setSpoiled] = useState('');
  const state = server.value;
  useEffect(() => {
    const ask = (): void => void askServer().then((now) => { if (now.ok && now.initialized && !now.sealed) onOpen(); else if (now.ok && !now.initialized) onEmpty?.(); });
    ask();
    const timer = setInterval(() => { if (!document.hidden) ask(); }, POLL_MS);
    return () => clearInterval(timer);
  }, []);
  const run = useAction(async () => {
    const before = server.peek().progress ?? 0;
    const sent = share.trim();
    setShare('');
    setSpoiled('');
    try { await call('PUT', 'sys/unseal', { token: '', ns: '', quiet: true, body: { key: sent } }); } catch (error) {
      if (before + 1 >= (server.peek().threshold ?? 1)) { setSpoiled('With this share the key does not open: one of those that were entered is wrong, and nobody can say which. All have to be entered again.'); await askServer(); return; }
      throw error;
    }
    const now = await askServer();
    if (!now.sealed) onOpen();
  });
  const reset = useAction(async () => { await call('PUT', 'sys/unseal', { token: '', ns: '', quiet: true, body: { reset: true } }); setSpoiled(''); await askServer(); });
  const [k, n] = [state.progress ?? 0, state.threshold ?? 1];
  const isAuto = state.recovery || (state.type !== undefined && state.type !== 'shamir');
  if (isAuto) return <Note>It unseals itself by its {state.type} seal, and waits for that to answer. There is nothing to enter here; the server's log says what it waits for.</Note>;
  return (
    <>
      <div class="steps" role="progressbar" aria-valuenow={k} aria-valuemin={0} aria-valuemax={n} aria-label="Shares entered">{Array.from({ length: n }, (_, i) => <span class={i < k ? 'done' : ''} />)}</div>
      <p class="soft">{k} of {n} shares entered{k > 0 && ', by anybody at any browser'}.</p>
      {spoiled && <Note kind="bad">{spoiled}</Note>}
      <form class="stack" onSubmit={(event) => { event.preventDefault(); if (share.trim()) void run.run(); }}>
        <Field label="Your share" value={share} onInput={setShare} mono masked autofocus hint="A wrong share shows only when the last one is entered." />
        <FormError error={run.error} />
        <div class="row"><Button kind="primary" type="submit" busy={run.busy} disabled={!share.trim()}>Enter the share</Button>{k > 0 && <Button busy={reset.busy} icon="undo" onClick={() => void reset.run()}>Start again</Button>}</div>
      </form>
    </>
  );
}

export function Unseal() {
  const state = server.value;
  const back = route.value.query.get('to') ?? '';
  useEffect(() => { document.title = 'Unseal · Kallisto'; }, []);
  const n = state.threshold ?? 1;
  return (
    <Outside title="This server is sealed" sub={state.name}>
      <UnsealSteps onOpen={() => void go(back.startsWith('/ui/') ? back : href('login'), true)} onEmpty={() => void go(href('setup'), true)} />
      {back && <p class="dim">Then on to <span class="mono">{back}</span></p>}
      {!state.ok && <Note kind="bad">The server does not answer.</Note>}
      <Card pad><dl class="kv"><dt>Cluster</dt><dd>{state.name || '–'}</dd><dt>Seal</dt><dd>{state.type ?? '–'} <Tag>{n} of {state.shares ?? n}</Tag></dd><dt>Version</dt><dd>{state.version}</dd></dl></Card>
    </Outside>
  );
}
