// Import and export of secrets as files. Parsed in a worker, compared with what is there, written as one atomic request; an export is made in the browser.
import * as common from '../../en/common.ts';
import * as en from '../../en/screens/secrets/transfer.ts';
import { useEffect, useState } from 'preact/hooks';
import { call } from '../../lib/api.ts';
import { diffData } from '../../lib/diff.ts';
import { download } from '../../lib/download.ts';
import { FORMATS, guess, write, type Entry, type Format, type Parsed } from '../../lib/formats.ts';
import { writeJson, type Data } from '../../lib/json.ts';
import { useAction } from '../../lib/load.ts';
import {
  apiPath,
  findPlace,
  lastSegment,
  listFolder,
  placeText,
  type Place,
} from '../../lib/place.ts';
import { fromHere, href } from '../../lib/router.ts';
import { toast } from '../../lib/toasts.ts';
import { plural, visible } from '../../lib/time.ts';
import { parseInWorker } from '../../lib/workers.ts';
import { open, Sheet } from '../../parts/dialog.tsx';
import { Form } from '../../parts/form.tsx';
import { Button, Card, Field, FormError, Note, Segments, Select, Tag } from '../../parts/ui.tsx';

const SECRETS_MAX = 4096;
const BYTES_MAX = 16 * 1024 * 1024;
const READ_MAX = 512;

interface Plan {
  entry: Entry;
  place: Place;
  state: 'new' | 'changed' | 'same' | 'refused';
  why?: string;
  version: number;
  rows?: ReturnType<typeof diffData>;
}

/** What is there now for each entry: up to 512 paths a question, with the intent of an import, which is a comparison. */
export async function readMany(
  places: Place[],
  intent: 'diff' | 'export',
): Promise<{ data?: Data; version: number; status: number; errors: string[] }[]> {
  const made: { data?: Data; version: number; status: number; errors: string[] }[] = [];
  for (let from = 0; from < places.length; from += READ_MAX) {
    const part = places.slice(from, from + READ_MAX);
    const { data } = await call<Record<string, any>>('POST', 'sys/kallisto/kv/read', {
      intent,
      exact: true,
      body: { paths: part.map((place) => apiPath(place, 'data')) },
    });
    (data['results'] as Record<string, any>[]).forEach((one, i) => {
      const isTwo = part[i]?.mount.version === 2;
      const inner = isTwo ? one['data']?.data : one['data'];
      made.push({
        status: Number(String(one['status'])),
        version: Number(String(one['data']?.metadata?.version ?? 0)),
        errors: (one['errors'] ?? []) as string[],
        ...(inner ? { data: inner as Data } : {}),
      });
    });
  }
  return made;
}

export function Import({ place }: { place: Place }) {
  const [text, setText] = useState('');
  const [name, setName] = useState('');
  const [format, setFormat] = useState<Format | 'auto'>('auto');
  const [target, setTarget] = useState('');
  const [parsed, setParsed] = useState<Parsed | undefined>(undefined);
  const [plans, setPlans] = useState<Plan[] | undefined>(undefined);
  const used = format === 'auto' ? guess(text, name) : format;
  useEffect(() => {
    setPlans(undefined);
    if (!text.trim()) {
      setParsed(undefined);
      return;
    }
    let isLate = false;
    const timer = setTimeout(
      () =>
        void parseInWorker(used, text).then((made) => {
          if (!isLate) setParsed(made);
        }),
      150,
    );
    return () => {
      isLate = true;
      clearTimeout(timer);
    };
  }, [text, used]);
  const needsName = parsed?.entries.some((entry) => entry.path === '') ?? false;
  const full = (entry: Entry): Place => ({
    mount: place.mount,
    isFolder: false,
    path: (
      place.path +
      (entry.path === ''
        ? target
        : target
          ? `${target.replace(/\/$/, '')}/${entry.path}`
          : entry.path)
    ).replace(/\/+/g, '/'),
  });
  const preview = useAction(async () => {
    const entries = parsed?.entries ?? [];
    if (entries.length > SECRETS_MAX)
      throw new Error(
        en.secretsAtMostCanBeWritten(
          entries.length.toLocaleString('en'),
          SECRETS_MAX.toLocaleString('en'),
        ),
      );
    const places = entries.map(full);
    const there = await readMany(places, 'diff');
    setPlans(
      entries.map((entry, i): Plan => {
        const own = places[i] as Place;
        const found = there[i];
        const tooBig = new Blob([writeJson(entry.data)]).size > 1_048_576;
        if (tooBig) return { entry, place: own, state: 'refused', why: en.over1Mib, version: 0 };
        if (found?.status === 403)
          return { entry, place: own, state: 'refused', why: en.youMayNotReadWhatIs, version: 0 };
        if (!found?.data) return { entry, place: own, state: 'new', version: found?.version ?? 0 };
        const rows = diffData(found.data, entry.data);
        return {
          entry,
          place: own,
          state: rows.every((row) => row.change === 'same') ? 'same' : 'changed',
          version: found.version,
          rows,
        };
      }),
    );
  });
  const write = useAction(async () => {
    const todo = (plans ?? []).filter((plan) => plan.state === 'new' || plan.state === 'changed');
    const body = `{"writes":[${todo.map((plan) => `{"path":${JSON.stringify(apiPath(plan.place, 'data'))},"data":${writeJson(plan.entry.data)}${plan.place.mount.version === 2 ? `,"options":{"cas":${plan.version}}` : ''}}`).join(',')}]}`;
    if (body.length > BYTES_MAX) throw new Error(en.over16MibCutTheFile);
    const goOn = fromHere();
    await call('POST', 'sys/kallisto/kv/write', { text: body });
    toast(en.written(plural(todo.length, common.secret)));
    void goOn(href(`s/${placeText(todo[0]?.place ?? place)}`));
  });
  const count = (state: Plan['state']): number =>
    (plans ?? []).filter((plan) => plan.state === state).length;
  const take = async (file: File | undefined): Promise<void> => {
    if (!file) return;
    if (file.size > BYTES_MAX) {
      toast(en.theFileIsOver16Mib);
      return;
    }
    setName(file.name);
    setText(await file.text());
  };
  return (
    <div class="body">
      <div class="head-inline">
        <h1>
          {en.importInto} <span class="mono">{visible(placeText(place))}</span>
        </h1>
        <p class="dim">{en.envJsonYamlCsvPathKey}</p>
      </div>
      {!text ? (
        <div
          class="drop"
          onDragOver={(event) => event.preventDefault()}
          onDrop={(event) => {
            event.preventDefault();
            void take(event.dataTransfer?.files[0]);
          }}
        >
          <p>{en.dropAFileHere}</p>
          <label class="btn">
            {en.chooseAFile}
            <input
              class="sr"
              type="file"
              onChange={(event) => void take(event.currentTarget.files?.[0])}
            />
          </label>
        </div>
      ) : null}
      <Field
        label={en.orPaste}
        value={text}
        onInput={setText}
        rows={text ? 8 : 4}
        mono
        placeholder={'DB_URL=postgres://…\nAPI_KEY="…"'}
      />
      {text && (
        <div class="row">
          <Select
            label={en.format}
            value={format}
            onChange={setFormat}
            options={[
              ['auto', en.asItLooks(FORMATS.find(([one]) => one === used)?.[1] ?? used)],
              ...FORMATS,
            ]}
          />
          <Field
            label={needsName ? en.nameOfTheSecret : en.folderBelow}
            value={target}
            onInput={(next) => {
              setTarget(next);
              setPlans(undefined);
            }}
            mono
            required={needsName}
            placeholder={needsName ? en.payments : ''}
          />
        </div>
      )}
      {parsed && parsed.problems.length > 0 && (
        <Note kind="warn">
          {parsed.problems.slice(0, 8).map((one) => (
            <p key={one.line + one.message}>{en.line(one.line, visible(one.message))}</p>
          ))}
          {parsed.problems.length > 8 && <p>{en.andMore(parsed.problems.length - 8)}</p>}
        </Note>
      )}
      {parsed && parsed.entries.length === 0 && parsed.problems.length === 0 && text && (
        <Note kind="warn">{en.nothingInItCouldBeUnderstood(used)}</Note>
      )}
      <FormError error={preview.error ?? write.error} />
      {parsed && parsed.entries.length > 0 && !plans && (
        <div class="row">
          <Button
            kind="primary"
            busy={preview.busy}
            disabled={needsName && !target}
            onClick={() => void preview.run()}
          >
            {en.preview(plural(parsed.entries.length, common.secret))}
          </Button>
        </div>
      )}
      {plans && (
        <Card
          title={
            <>
              {en.newChangedSame(count('new'), count('changed'), count('same'))}
              {count('refused') > 0 && en.refused(count('refused'))}
            </>
          }
          actions={
            <Button
              kind="primary"
              icon="check"
              busy={write.busy}
              disabled={count('refused') > 0 || count('new') + count('changed') === 0}
              need={{ path: 'sys/kallisto/kv/write', cap: ['update', 'create'] }}
              onClick={() => void write.run()}
            >
              {en.write(plural(count('new') + count('changed'), common.secret))}
            </Button>
          }
        >
          <table class="grid">
            <thead>
              <tr>
                <th>{common.secret2}</th>
                <th>{en.whatHappens}</th>
                <th>{common.keys}</th>
              </tr>
            </thead>
            <tbody>
              {plans.slice(0, 200).map((plan) => (
                <tr key={plan.place.path}>
                  <td class="mono">{visible(placeText(plan.place))}</td>
                  <td>
                    <Tag
                      kind={
                        plan.state === 'new'
                          ? 'ok'
                          : plan.state === 'changed'
                            ? 'warn'
                            : plan.state === 'refused'
                              ? 'bad'
                              : ''
                      }
                    >
                      {plan.state}
                    </Tag>
                    {plan.why && ` ${plan.why}`}
                  </td>
                  <td class="mono">
                    {(plan.rows
                      ? plan.rows
                          .filter((row) => row.change !== 'same')
                          .map(
                            (row) =>
                              `${{ added: '+', removed: '−', changed: '~', same: '' }[row.change]}${row.key}`,
                          )
                      : Object.keys(plan.entry.data)
                    )
                      .slice(0, 6)
                      .map(visible)
                      .join(', ')}
                  </td>
                </tr>
              ))}
            </tbody>
          </table>
          {count('refused') > 0 && (
            <div class="pad">
              <Note kind="bad">{en.aPartIsRefusedSoNothing}</Note>
            </div>
          )}
        </Card>
      )}
    </div>
  );
}

/** Every secret below the places, folders opened. */
async function expand(places: string[]): Promise<Place[]> {
  const made: Place[] = [];
  const visit = async (text: string): Promise<void> => {
    const place = await findPlace(text);
    if (!place.isFolder) {
      made.push(place);
      return;
    }
    const names: string[] = [];
    await listFolder(place, (page) => names.push(...page), new AbortController().signal);
    for (const name of names) {
      if (made.length > SECRETS_MAX) throw new Error(en.moreThanSecretsExportAPart(SECRETS_MAX));
      await visit(placeText(place) + name);
    }
  };
  for (const place of places) await visit(place);
  return made;
}

function Export({ places, close }: { places: string[]; close: () => void }) {
  const [format, setFormat] = useState<Format>('json');
  const [left, setLeft] = useState<{ path: string; why: string }[]>([]);
  const base = places.length === 1 && places[0]?.endsWith('/') ? places[0] : '';
  const run = useAction(async (skip: boolean) => {
    const all = await expand(places);
    const read = await readMany(all, 'export');
    const missing = all.flatMap((place, i) =>
      read[i]?.data
        ? []
        : [
            {
              path: placeText(place),
              why:
                read[i]?.errors.join('; ') ||
                (read[i]?.status === 404 ? common.deleted : en.answer(read[i]?.status)),
            },
          ],
    );
    if (missing.length > 0 && !skip) return setLeft(missing);
    const entries = all.flatMap((place, i): Entry[] => {
      const data = read[i]?.data;
      return data ? [{ path: placeText(place).slice(base.length), data }] : [];
    });
    const name = lastSegment(places[0] ?? 'secrets') || 'secrets';
    download(
      `${name}.${{ env: 'env', json: 'json', yaml: 'yaml', csv: 'csv', k8s: 'secret.yaml' }[format]}`,
      write(format, entries),
      'text/plain',
    );
    toast(en.exportedTheFileHoldsThemIn(plural(entries.length, common.secret)));
    close();
  });
  return (
    <Form name="secrets/export" onSubmit={() => run.run(left.length > 0)}>
      <Sheet
        title={en.exportInPlainText}
        actions={
          <>
            <Button onClick={close}>{common.cancel}</Button>
            <Button kind="primary" type="submit" icon="dl" busy={run.busy}>
              {left.length > 0 ? en.exportTheRest : en.exportIt}
            </Button>
          </>
        }
      >
        <Segments label={en.format} value={format} options={FORMATS} onChange={setFormat} />
        <Note kind="warn">{en.everyValueIsReadWhichThe}</Note>
        {left.length > 0 && (
          <Note kind="bad">
            <b>{en.cannotBeRead(plural(left.length, common.secret))}</b>{' '}
            {left.slice(0, 6).map((one) => (
              <p class="mono" key={one.path}>
                {visible(one.path)}: {visible(one.why)}
              </p>
            ))}
          </Note>
        )}
        <FormError error={run.error} />
      </Sheet>
    </Form>
  );
}
export const exportSecrets = (places: string[]): void =>
  void open<void>((close) => <Export places={places} close={() => close()} />);
