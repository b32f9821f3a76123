// Metadata: owner, due date, description, free pairs, and the limits of versions.
import { useState } from 'preact/hooks';
import { call } from '../../lib/api.ts';
import { useAction } from '../../lib/load.ts';
import { apiPath, type Metadata, type Place } from '../../lib/place.ts';
import { toast } from '../../lib/toasts.ts';
import { Button, Card, Check, Failed, Field, FormError, Note } from '../../parts/ui.tsx';

const SUGGESTED = ['owner', 'due', 'description'];

export function Meta({ place, meta, error, reload }: { place: Place; meta: Metadata | undefined; error: unknown; reload: () => void }) {
  const start = meta?.custom_metadata ?? {};
  const [pairs, setPairs] = useState<[string, string][]>(() => [...SUGGESTED.map((key): [string, string] => [key, start[key] ?? '']), ...Object.entries(start).filter(([key]) => !SUGGESTED.includes(key))]);
  const [max, setMax] = useState(String(meta?.max_versions ?? 0));
  const [after, setAfter] = useState(meta?.delete_version_after ?? '0s');
  const [cas, setCas] = useState(meta?.cas_required ?? false);
  const path = apiPath(place, 'metadata');
  const save = useAction(async () => {
    const custom: Record<string, string | null> = {};
    for (const key of Object.keys(start)) custom[key] = null;
    for (const [key, value] of pairs) if (key.trim() && value !== '') custom[key.trim()] = value;
    await call('PATCH', path, { body: { custom_metadata: custom, max_versions: Number(max) || 0, delete_version_after: after || '0s', cas_required: cas } });
    toast('Metadata saved');
    reload();
  });
  if (!meta) return <Failed error={error} path={path} />;
  const set = (at: number, pair: [string, string]): void => setPairs(pairs.map((one, i) => (i === at ? pair : one)));
  return (
    <form class="stack" onSubmit={(event) => { event.preventDefault(); void save.run(); }}>
      <Card title="About this secret" pad>
        <Note>Metadata is no secret: whoever may read it or list here can see it, and it can be searched, as <span class="mono">owner:ada</span>.</Note>
        {pairs.map(([key, value], i) => SUGGESTED.includes(key) && i < SUGGESTED.length
          ? <Field key={i} label={key === 'due' ? 'Rotate by' : key === 'owner' ? 'Owner' : 'Description'} value={value} type={key === 'due' ? 'date' : 'text'} onInput={(text) => set(i, [key, text])} hint={key === 'due' ? 'kept as due; home reminds of it' : undefined} />
          : <div class="pair" key={i}><Field label="Name" value={key} onInput={(text) => set(i, [text, value])} mono /><Field label="Value" value={value} onInput={(text) => set(i, [key, text])} /><Button kind="ghost" icon="trash" label={`Remove ${key}`} onClick={() => setPairs(pairs.filter((_, at) => at !== i))} /></div>)}
        <div><Button icon="plus" onClick={() => setPairs([...pairs, ['', '']])}>Another pair</Button></div>
      </Card>
      <Card title="Versions" pad><Field label="Versions kept" value={max} type="number" min={0} onInput={setMax} hint="0: as the mount says" /><Field label="Delete a version after" value={after} onInput={setAfter} mono hint="such as 720h; 0s: never" /><Check label="Writes must say which version they replace" hint="check-and-set" checked={cas} onChange={setCas} /></Card>
      <FormError error={save.error} />
      <div class="row end"><Button kind="primary" type="submit" icon="check" busy={save.busy} need={{ path, cap: ['patch', 'update', 'create'] }} onClick={() => {}}>Save metadata</Button></div>
    </form>
  );
}
