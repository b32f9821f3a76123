// Namespaces below the one in view: make, lock, unlock, end.
import { useState } from 'preact/hooks';
import { call } from '../../lib/api.ts';
import { useAction, useLoad } from '../../lib/load.ts';
import { go, href } from '../../lib/router.ts';
import { namespace } from '../../lib/state.ts';
import { visible } from '../../lib/time.ts';
import { toast } from '../../lib/toasts.ts';
import { confirm, open, Sheet } from '../../parts/dialog.tsx';
import { Button, Card, Empty, Failed, Field, FormError, Loading, Note } from '../../parts/ui.tsx';

export function NamespacesSettings() {
  const loaded = useLoad(async () => (await call<{ keys?: string[] }>('LIST', 'sys/namespaces').catch((error: { status?: number }) => { if (error.status === 404) return { data: { keys: [] as string[] } }; throw error; })).data.keys ?? [], []);
  const [name, setName] = useState('');
  const make = useAction(async () => { await call('POST', `sys/namespaces/${name}`, { body: {} }); toast(`${name} is made`); setName(''); loaded.reload(); });
  const end = useAction(async (path: string) => { if (await confirm({ title: `End ${path}?`, text: 'All that it holds is removed: mounts, secrets, policies, logins. It is refused while namespaces lie below it.', action: 'End it', danger: true, typed: path })) { await call('DELETE', `sys/namespaces/${path}`); loaded.reload(); } });
  const lock = useAction(async (path: string) => { const { data } = await call<{ unlock_key: string }>('POST', `sys/namespaces/api-lock/lock/${path}`, { body: {} }); void open<void>((close) => <Sheet title={`${path} is locked`} actions={<Button kind="primary" onClick={() => close()}>Done</Button>}><Note kind="warn">The unlock key is shown once.</Note><div class="code mono"><code>{data.unlock_key}</code></div></Sheet>); });
  if (loaded.error) return <Failed error={loaded.error} retry={loaded.reload} path="sys/namespaces" cap="list" />;
  if (!loaded.data) return <Loading />;
  return <Card title={<>Namespaces in <span class="mono">{namespace.value || 'root'}</span></>}><form class="pad row" onSubmit={(event) => { event.preventDefault(); void make.run(); }}><div class="grow"><Field label="New namespace" value={name} onInput={setName} mono /></div><Button type="submit" icon="plus" class="at-end" busy={make.busy} disabled={!name}>Make it</Button></form><FormError error={make.error ?? end.error ?? lock.error} />{loaded.data.length === 0 ? <Empty icon="layers" title="None below this one" /> : <table class="grid"><tbody>{loaded.data.map((key) => { const path = key.replace(/\/$/, ''); return <tr key={key}><td class="mono"><b>{visible(path)}</b></td><td class="right"><span class="cell-acts"><Button size="sm" onClick={() => void go(href('', {}, namespace.value ? `${namespace.value}/${path}` : path))}>Go there</Button><Button size="sm" icon="lock" onClick={() => void lock.run(path)}>Lock</Button><Button size="sm" kind="ghost" icon="trash" label={`End ${path}`} onClick={() => void end.run(path)} /></span></td></tr>; })}</tbody></table>}</Card>;
}
