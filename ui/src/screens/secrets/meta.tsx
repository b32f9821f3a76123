// Metadata: owner, due date, description, free pairs, and the limits of versions.
import * as common from '../../en/common.ts';
import * as en from '../../en/screens/secrets/meta.ts';
import { useState } from 'preact/hooks';
import { call } from '../../lib/api.ts';
import { useAction } from '../../lib/load.ts';
import { allows, useNeeds } from '../../lib/needs.ts';
import { apiPath, type Metadata, type Place } from '../../lib/place.ts';
import { toast } from '../../lib/toasts.ts';
import { Form } from '../../parts/form.tsx';
import { Button, Card, Check, Failed, Field, FormError, Note } from '../../parts/ui.tsx';

const SUGGESTED = ['owner', 'due', 'description'];
/** A field for dates shows nothing else, such as a time that was set elsewhere. */
const isDate = (text: string | undefined): boolean => !text || /^\d{4}-\d\d-\d\d$/.test(text);

export function Meta({
  place,
  meta,
  error,
  reload,
}: {
  place: Place;
  meta: Metadata | undefined;
  error: unknown;
  reload: () => void;
}) {
  const start = meta?.custom_metadata ?? {};
  const [pairs, setPairs] = useState<[string, string][]>(() => [
    ...SUGGESTED.map((key): [string, string] => [key, start[key] ?? '']),
    ...Object.entries(start).filter(([key]) => !SUGGESTED.includes(key)),
  ]);
  const [max, setMax] = useState(String(meta?.max_versions ?? 0));
  const [after, setAfter] = useState(meta?.delete_version_after ?? '0s');
  const [cas, setCas] = useState(meta?.cas_required ?? false);
  const path = apiPath(place, 'metadata');
  useNeeds([{ path, cap: 'patch' }]);
  const mayPatch = allows({ path, cap: 'patch' });
  const save = useAction(async () => {
    const custom: Record<string, string | null> = {};
    // Many policies grant update alone. A write in the place of a patch sets all pairs.
    if (mayPatch !== false) for (const key of Object.keys(start)) custom[key] = null;
    for (const [key, value] of pairs) if (key.trim() && value !== '') custom[key.trim()] = value;
    await call(mayPatch === false ? 'POST' : 'PATCH', path, {
      body: {
        custom_metadata: custom,
        max_versions: Number(max) || 0,
        delete_version_after: after || '0s',
        cas_required: cas,
      },
    });
    toast(en.metadataSaved);
    reload();
  });
  if (!meta) return <Failed error={error} path={path} />;
  const set = (at: number, pair: [string, string]): void =>
    setPairs(pairs.map((one, i) => (i === at ? pair : one)));
  return (
    <Form name="secret/metadata" class="stack" onSubmit={() => save.run()}>
      <Card title={en.aboutThisSecret} pad>
        <Note>
          {en.metadataIsNoSecretWhoeverMay} <span class="mono">owner:ada</span>.
        </Note>
        {pairs.map(([key, value], i) =>
          SUGGESTED.includes(key) && i < SUGGESTED.length ? (
            <Field
              key={i}
              label={key === 'due' ? en.rotateBy : key === 'owner' ? en.owner : common.description}
              value={value}
              type={key === 'due' && isDate(start[key]) ? 'date' : 'text'}
              onInput={(text) => set(i, [key, text])}
              hint={key === 'due' ? en.keptAsDueHomeRemindsOf : undefined}
            />
          ) : (
            <div class="pair" key={i}>
              <Field
                label={common.name}
                value={key}
                onInput={(text) => set(i, [text, value])}
                mono
              />
              <Field label={common.value} value={value} onInput={(text) => set(i, [key, text])} />
              <Button
                kind="ghost"
                icon="trash"
                label={en.remove(key)}
                onClick={() => setPairs(pairs.filter((_, at) => at !== i))}
              />
            </div>
          ),
        )}
        <div>
          <Button icon="plus" onClick={() => setPairs([...pairs, ['', '']])}>
            {en.anotherPair}
          </Button>
        </div>
      </Card>
      <Card title={common.versions} pad>
        <Field
          label={en.versionsKept}
          value={max}
          type="number"
          min={0}
          onInput={setMax}
          hint={en.n0AsTheMountSays}
        />
        <Field
          label={en.deleteAVersionAfter}
          value={after}
          onInput={setAfter}
          mono
          hint={en.suchAs720h0sNever}
        />
        <Check
          label={en.writesMustSayWhichVersionThey}
          hint={en.checkAndSet}
          checked={cas}
          onChange={setCas}
        />
      </Card>
      <FormError error={save.error} />
      <div class="row end">
        <Button
          kind="primary"
          type="submit"
          icon="check"
          busy={save.busy}
          need={{ path, cap: ['patch', 'update', 'create'] }}
          onClick={() => {}}
        >
          {en.saveMetadata}
        </Button>
      </div>
    </Form>
  );
}
