// Snapshots: take one to a file, check one (contract E13), restore one with what would be lost.
import { useState } from 'preact/hooks';
import { ApiError, headersOf, tryCall, urlOf } from '../lib/api.ts';
import { download } from '../lib/formats.ts';
import { useAction } from '../lib/load.ts';
import { bytes, exact } from '../lib/time.ts';
import { toast } from '../lib/toasts.ts';
import { confirm } from '../parts/dialog.tsx';
import { Button, Card, Check, FormError, Note, Page } from '../parts/ui.tsx';
import { server } from '../lib/state.ts';

interface Writable { createWritable(): Promise<WritableStream<Uint8Array>> }
type Picker = (options: { suggestedName: string }) => Promise<Writable>;

async function refused(response: Response, path: string): Promise<never> {
  const body = JSON.parse((await response.text()) || '{}') as { errors?: string[]; request_id?: string };
  throw new ApiError(response.status, body.errors ?? [], 'POST', path, body.request_id ?? '');
}

export function Snapshots() {
  const [file, setFile] = useState<File | undefined>(undefined);
  const [found, setFound] = useState<Record<string, any> | undefined>(undefined);
  const [force, setForce] = useState(false);
  const at = 'sys/storage/raft/snapshot';
  const take = useAction(async () => {
    const name = `kallisto-${server.peek().name || 'cluster'}-${new Date().toISOString().slice(0, 16).replace(/[:T]/g, '-')}.snap`;
    const response = await fetch(urlOf(at), { headers: headersOf({}), cache: 'no-store', credentials: 'omit' });
    if (!response.ok || !response.body) return refused(response, at);
    const picker = (globalThis as { showSaveFilePicker?: Picker }).showSaveFilePicker;
    if (picker && isSecureContext) {
      try { const handle = await picker({ suggestedName: name }); await response.body.pipeTo(await handle.createWritable()); toast(`${name} is saved`); return; } catch (error) { if (error instanceof DOMException && error.name === 'AbortError') return; if (response.bodyUsed) throw error; }
    }
    const blob = await response.blob();
    download(name, blob);
    toast(`${name}: ${bytes(blob.size)}`);
  });
  const check = useAction(async () => {
    if (!file) return;
    const response = await fetch(urlOf(at, { check: true }), { method: 'POST', headers: headersOf({}), body: file, cache: 'no-store', credentials: 'omit' });
    if (!response.ok) return refused(response, at);
    setFound((JSON.parse(await response.text()) as { data: Record<string, any> }).data);
  });
  const restore = useAction(async () => {
    if (!file) return;
    if (!(await confirm({ title: 'Restore this snapshot?', text: 'Everything that was written since it was taken is lost, on every server of the cluster. Whoever is signed in by a newer token has to sign in again.', action: 'Restore', danger: true, typed: force ? 'restore by force' : 'restore' }))) return;
    const path = force ? 'sys/storage/raft/snapshot-force' : at;
    const response = await fetch(urlOf(path), { method: 'POST', headers: headersOf({}), body: file, cache: 'no-store', credentials: 'omit' });
    if (!response.ok) return refused(response, path);
    toast('Restored. The cluster may have to be unsealed again.');
    void tryCall('GET', 'auth/token/lookup-self');
  });
  return (
    <Page title="Snapshots" sub="All data of the cluster as it is stored: encrypted, to be opened only with its unseal keys.">
      <div class="two">
        <Card title="Take one" pad><p class="soft">Requests go on meanwhile. Keep it away from the servers, and try now and then to restore one elsewhere.</p><FormError error={take.error} /><div><Button kind="primary" icon="dl" busy={take.busy} need={{ path: at, cap: 'read' }} onClick={() => void take.run()}>Save a snapshot</Button></div></Card>
        <Card title="Check or restore" pad>
          <div class="row"><label class="btn">{file ? 'Another file' : 'Choose a file'}<input type="file" class="sr" onChange={(event) => { setFile(event.currentTarget.files?.[0]); setFound(undefined); }} /></label>{file && <span class="mono">{file.name} · {bytes(file.size)}</span>}</div>
          {file && <div class="row"><Button icon="check" busy={check.busy} need={{ path: at, cap: ['update', 'create'] }} onClick={() => void check.run()}>Check</Button><Button kind="danger" icon="undo" busy={restore.busy} need={{ path: at, cap: ['update', 'create'] }} onClick={() => void restore.run()}>Restore</Button></div>}
          {file && <Check label="By force" hint="from a cluster with other unseal keys: this one needs those keys afterwards" checked={force} onChange={setForce} />}
          {found && <Note kind={found['acceptable'] === false || found['would_be_taken'] === false ? 'bad' : 'ok'}><dl class="kv">{Object.entries(found).map(([key, value]) => <><dt>{key.replaceAll('_', ' ')}</dt><dd class="mono">{typeof value === 'string' && /^\d{4}-/.test(value) ? exact(value) : typeof value === 'number' && key.includes('bytes') ? bytes(value) : typeof value === 'string' ? value : JSON.stringify(value)}</dd></>)}</dl></Note>}
          <FormError error={check.error ?? restore.error} />
        </Card>
      </div>
    </Page>
  );
}
