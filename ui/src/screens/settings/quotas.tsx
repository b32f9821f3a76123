// Rate limits.
import { useState } from 'preact/hooks';
import { call } from '../../lib/api.ts';
import { useAction, useLoad } from '../../lib/load.ts';
import { visible } from '../../lib/time.ts';
import { toast } from '../../lib/toasts.ts';
import { Button, Card, Empty, Failed, Field, FormError, Loading } from '../../parts/ui.tsx';

export function Quotas() {
  const loaded = useLoad(async () => { const keys = (await call<{ keys?: string[] }>('LIST', 'sys/quotas/rate-limit').catch((error: { status?: number }) => { if (error.status === 404) return { data: { keys: [] as string[] } }; throw error; })).data.keys ?? []; return Promise.all(keys.map(async (name) => (await call<Record<string, any>>('GET', `sys/quotas/rate-limit/${name}`)).data)); }, []);
  const [name, setName] = useState('');
  const [path, setPath] = useState('');
  const [rate, setRate] = useState('100');
  const run = useAction(async () => { await call('POST', `sys/quotas/rate-limit/${name}`, { body: { path, rate: Number(rate), interval: '1s' } }); toast('The limit holds'); setName(''); loaded.reload(); });
  const remove = useAction(async (gone: string) => { await call('DELETE', `sys/quotas/rate-limit/${gone}`); loaded.reload(); });
  if (loaded.error) return <Failed error={loaded.error} retry={loaded.reload} path="sys/quotas/rate-limit" cap="list" />;
  return <><Card title="Rate limits">{!loaded.data ? <Loading /> : loaded.data.length === 0 ? <Empty icon="clock" title="No limit" /> : <table class="grid"><thead><tr><th>Name</th><th>Path</th><th>Role</th><th class="right">Rate</th><th><span class="sr">Actions</span></th></tr></thead><tbody>{loaded.data.map((one) => <tr><td><b>{visible(one['name'])}</b></td><td class="mono">{visible(one['path'] || 'everywhere')}</td><td>{one['role'] || '–'}</td><td class="right num">{one['rate']} in {one['interval']} s</td><td class="right"><Button size="sm" kind="ghost" icon="trash" label={`Remove ${one['name']}`} onClick={() => void remove.run(one['name'] as string)} /></td></tr>)}</tbody></table>}</Card><Card title="New limit" pad><form class="filters" onSubmit={(event) => { event.preventDefault(); void run.run(); }}><Field label="Name" value={name} onInput={setName} mono /><Field label="Path" value={path} onInput={setPath} mono placeholder="everywhere" /><Field label="Requests a second" type="number" min={1} value={rate} onInput={setRate} /><Button type="submit" icon="plus" busy={run.busy} disabled={!name}>Set</Button></form><FormError error={run.error ?? remove.error} /></Card></>;
}
