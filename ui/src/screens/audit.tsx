// The audit log: devices, records with filters (contract E10), and the chain verified here in the browser.
import { useEffect, useRef, useState } from 'preact/hooks';
import { call, headersOf, tryCall, urlOf } from '../lib/api.ts';
import { useAction, useLoad } from '../lib/load.ts';
import { count, exact, visible, visibleText, when } from '../lib/time.ts';
import { toast } from '../lib/toasts.ts';
import { startWorker } from '../lib/workers.ts';
import type { Verdict } from '../workers/audit.ts';
import { open, Sheet, confirm } from '../parts/dialog.tsx';
import { Button, Card, Empty, Failed, Field, FormError, Loading, Note, Page, Select, Tag } from '../parts/ui.tsx';

interface Head { seq: number; hash: string; health: string; chain: string; public_key?: string; error?: string | null }
interface Device { name: string; type: string; file: string; head?: Head | undefined }

async function devices(): Promise<Device[]> {
  const { data } = await call<Record<string, any>>('GET', 'sys/audit');
  return Promise.all(Object.entries(data).map(async ([path, one]): Promise<Device> => {
    const name = path.replace(/\/$/, '');
    const head = await tryCall<Head & Record<string, unknown>>('GET', `sys/audit-head/${name}`);
    return { name, type: one['type'], file: one['options']?.file_path ?? '', head: head?.data };
  }));
}

function Enable({ onDone }: { onDone: () => void }) {
  const [path, setPath] = useState('/var/log/kallisto/audit.log');
  const run = useAction(async () => { await call('POST', 'sys/audit/file', { body: { type: 'file', options: { file_path: path } } }); toast('The audit device is on'); onDone(); });
  return <form class="stack" onSubmit={(event) => { event.preventDefault(); void run.run(); }}><Field label="File on the server" value={path} onInput={setPath} mono required /><FormError error={run.error} /><div class="row end"><Button kind="primary" type="submit" busy={run.busy} need={{ path: 'sys/audit/file', cap: ['sudo'] }} onClick={() => {}}>Enable a file device</Button></div></form>;
}

/** Verifies a file that was chosen, or the lines that the server streams; compares the end with the server's head. */
function Verify({ device }: { device: Device | undefined }) {
  const [verdict, setVerdict] = useState<Verdict | undefined>(undefined);
  const [busy, setBusy] = useState(false);
  const worker = useRef<Worker | undefined>(undefined);
  const run = async (stream: ReadableStream<Uint8Array<ArrayBuffer>>): Promise<void> => {
    setBusy(true);
    setVerdict(undefined);
    worker.current?.terminate();
    const own = startWorker('audit-worker');
    worker.current = own;
    own.onmessage = (event: MessageEvent<Verdict>) => { setVerdict({ ...event.data }); if (event.data.done) { setBusy(false); own.terminate(); } };
    const reader = stream.getReader();
    for (;;) {
      const { value, done } = await reader.read();
      if (value) { const buffer = value.slice().buffer; own.postMessage({ chunk: buffer }, [buffer]); }
      if (done) { own.postMessage({ last: true }); return; }
    }
  };
  const fromServer = useAction(async () => {
    const response = await fetch(urlOf(`sys/kallisto/audit/${device?.name}/records`, { raw: true, from_seq: 1 }), { headers: headersOf({}), cache: 'no-store', credentials: 'omit' });
    if (!response.ok || !response.body) throw new Error(response.status === 404 ? 'This server does not stream its records yet: choose the file instead.' : `The server answered ${response.status}.`);
    await run(response.body as ReadableStream<Uint8Array<ArrayBuffer>>);
  });
  const head = device?.head;
  const meets = verdict?.done && head && !verdict.wrong ? (verdict.last >= head.seq ? 'ok' : 'behind') : undefined;
  return (
    <Card title="Verify the chain" pad>
      <p class="soft">Each line holds the hash of the one before. They are computed again here, in this browser: the server need not be believed.</p>
      {!globalThis.crypto?.subtle && <Note kind="warn">Hashing needs HTTPS, or localhost. Use <span class="mono">kallisto audit verify</span>.</Note>}
      <div class="row"><Button kind="primary" icon="check" busy={busy || fromServer.busy} disabled={!device} onClick={() => void fromServer.run()}>Verify {device ? device.name : 'a device'}</Button><label class="btn">A file<input type="file" class="sr" onChange={(event) => { const file = event.currentTarget.files?.[0]; if (file) void run(file.stream()); }} /></label></div>
      <FormError error={fromServer.error} />
      {verdict && (verdict.wrong ? <Note kind="bad"><b>The chain breaks at record {count(verdict.wrong.seq)}</b> (line {count(verdict.wrong.line)}): {verdict.wrong.why}. {count(verdict.lines - 1)} lines before it hold.</Note> : <Note kind={verdict.done ? 'ok' : 'accent'}><b>{verdict.done ? `The chain holds to ${count(verdict.last)}` : `${count(verdict.lines)} lines so far…`}</b>{verdict.done && <> · {count(verdict.lines)} lines from record {count(verdict.first)}. {meets === 'ok' ? 'It reaches the head that the server states.' : meets === 'behind' ? `The server states ${count(head?.seq ?? 0)}: the lines end earlier.` : ''}</>}</Note>)}
      {head && <dl class="kv"><dt>Head</dt><dd class="mono">{count(head.seq)} · {head.hash.slice(0, 16)}…</dd>{head.public_key && <><dt>Key of checkpoints</dt><dd class="mono">{head.public_key.slice(0, 28)}…</dd></>}</dl>}
    </Card>
  );
}

const TAIL_MS = 2000;
type Row = Record<string, any>;
function Records({ device }: { device: Device }) {
  const [filters, setFilters] = useState({ path: '', operation: '', outcome: '', entity: '', since: '' });
  const [used, setUsed] = useState(filters);
  const loaded = useLoad(async (signal) => (await call<{ records?: Row[]; next?: unknown }>('GET', `sys/kallisto/audit/${device.name}/records`, { signal, quiet: true, query: { limit: 100, path: used.path || undefined, operation: used.operation || undefined, outcome: used.outcome || undefined, entity: used.entity || undefined, since: used.since ? new Date(used.since).toISOString() : undefined } })).data, [device.name, JSON.stringify(used)]);
  const [isLive, setLive] = useState(false);
  useEffect(() => {
    if (!isLive) return;
    const timer = setInterval(() => { if (!document.hidden) loaded.reload(); }, TAIL_MS);
    return () => clearInterval(timer);
  }, [isLive]);
  const set = (key: keyof typeof filters) => (value: string): void => setFilters({ ...filters, [key]: value });
  const show = (row: Row): void => void open<void>((close) => <Sheet title="Record" actions={<Button kind="primary" onClick={() => close()}>Close</Button>}><pre class="json mono">{visibleText(JSON.stringify(row, null, 2))}</pre></Sheet>);
  const records = (loaded.data?.records ?? []).map((one) => (typeof one === 'string' ? (JSON.parse(one) as Row) : ((one['record'] as Row | undefined) ?? one)));
  return (
    <Card title="Records" actions={<><Button size="sm" icon={isLive ? 'pause' : 'play'} pressed={isLive} onClick={() => setLive(!isLive)}>{isLive ? 'Following' : 'Follow'}</Button><Button size="sm" icon="undo" busy={loaded.busy && !isLive} onClick={loaded.reload}>Refresh</Button></>}>
      <form class="pad filters" onSubmit={(event) => { event.preventDefault(); setUsed(filters); }}><Field label="Path begins with" value={filters.path} onInput={set('path')} mono /><Select label="Operation" value={filters.operation} onChange={set('operation')} options={[['', 'any'], ['read', 'read'], ['create', 'create'], ['update', 'update'], ['patch', 'patch'], ['delete', 'delete'], ['list', 'list']]} /><Select label="Outcome" value={filters.outcome} onChange={set('outcome')} options={[['', 'any'], ['ok', 'allowed'], ['denied', 'refused'], ['error', 'failed']]} /><Field label="Who (entity)" value={filters.entity} onInput={set('entity')} mono /><Button type="submit" icon="search">Filter</Button></form>
      {loaded.error ? <div class="pad"><Note kind="warn">{(loaded.error as { status?: number }).status === 404 || /unsupported path/.test(String(loaded.error)) ? 'This server does not serve its records to the page: look at the file, or verify it here.' : loaded.error instanceof Error ? loaded.error.message : ''}</Note></div> : !loaded.data ? <Loading /> : records.length === 0 ? <Empty icon="audit" title="No record matches" /> : (
        <div class="scroll-x" tabIndex={0} role="region" aria-label="Records"><table class="grid"><thead><tr><th>Time</th><th>Who</th><th>Operation</th><th>Path</th><th>Address</th><th>Outcome</th><th><span class="sr">More</span></th></tr></thead><tbody>{records.map((row, i) => <tr key={i}><td class="nowrap" title={exact(row['time'])}>{when(row['time'])}</td><td>{visible(row['auth']?.display_name ?? '–')}</td><td>{row['request']?.operation}{row['request']?.headers?.['x-kallisto-intent'] && <> <Tag kind="accent">{String(row['request'].headers['x-kallisto-intent'])}</Tag></>} <span class="dim">{row['type']}</span></td><td class="mono">{visible(row['request']?.path ?? '')}</td><td class="mono dim">{row['request']?.remote_address ?? ''}</td><td>{row['error'] ? <Tag kind="bad">{visible(String(row['error']).slice(0, 60))}</Tag> : <Tag kind="ok">ok</Tag>}</td><td class="right"><Button size="sm" kind="ghost" icon="more" label="Whole record" onClick={() => show(row)} /></td></tr>)}</tbody></table></div>)}
    </Card>
  );
}

export function Audit() {
  const loaded = useLoad(devices, []);
  const [name, setName] = useState('');
  if (loaded.error) return <Failed error={loaded.error} retry={loaded.reload} path="sys/audit" cap="read" />;
  const list = loaded.data;
  const device = list?.find((one) => one.name === name) ?? list?.find((one) => one.type === 'file');
  const enable = (): void => void open<void>((close) => <Sheet title="A new audit device" actions={<Button onClick={() => close()}>Close</Button>}><Enable onDone={() => { close(); loaded.reload(); }} /></Sheet>);
  const disable = async (one: Device): Promise<void> => { if (await confirm({ title: `Disable ${one.name}?`, text: 'Requests are then recorded only by the devices that are left; with none, nobody can say later who read what.', action: 'Disable', danger: true, typed: one.name })) { await call('DELETE', `sys/audit/${one.name}`).then(loaded.reload, (error: Error) => toast(error.message)); } };
  return (
    <Page title="Audit" sub="Every request and its answer, with values masked, in a chain that shows each change." actions={<Button icon="plus" need={{ path: 'sys/audit/file', cap: 'sudo' }} onClick={enable}>Enable a device</Button>}>
      {!list ? <Loading /> : list.length === 0 ? <Card><Empty icon="audit" title="No audit device" action={<Button kind="primary" icon="plus" onClick={enable}>Enable a file device</Button>} command="kallisto audit enable file file_path=/var/log/kallisto/audit.log">Nobody can say later who read what.</Empty></Card> : <>
        <Card title="Devices"><div class="scroll-x" tabIndex={0} role="region" aria-label="Devices"><table class="grid"><thead><tr><th>Device</th><th>Kind</th><th>File</th><th>Records</th><th>State</th><th><span class="sr">Actions</span></th></tr></thead><tbody>{list.map((one) => <tr key={one.name}><td><b>{one.name}</b></td><td>{one.type}</td><td class="mono">{visible(one.file)}</td><td class="num">{one.head ? count(one.head.seq) : '–'}</td><td>{one.head ? <><Tag kind={one.head.health === 'working' ? 'ok' : 'bad'}>{one.head.health}</Tag> <Tag kind={one.head.chain === 'sound' || one.head.chain === 'new' ? 'ok' : 'warn'}>chain {one.head.chain}</Tag></> : '–'}</td><td class="right"><span class="cell-acts">{device?.name !== one.name && one.type === 'file' && <Button size="sm" onClick={() => setName(one.name)}>Look</Button>}<Button size="sm" kind="ghost" icon="trash" label={`Disable ${one.name}`} need={{ path: `sys/audit/${one.name}`, cap: 'sudo' }} onClick={() => void disable(one)} /></span></td></tr>)}</tbody></table></div></Card>
        <Verify device={device} />
        {device && <Records device={device} />}</>}
    </Page>
  );
}
