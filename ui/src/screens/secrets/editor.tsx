// Editing: a table or JSON, the difference before saving, check-and-set, and a merge of three when somebody was faster.
//
// Numbers stay as they were written. Whoever may not read edits by PATCH, without seeing. Leaving asks, except after a save.
import * as common from '../../en/common.ts';
import * as en from '../../en/screens/secrets/editor.ts';
import { useEffect, useLayoutEffect, useMemo, useRef, useState } from 'preact/hooks';
import { ApiError, call } from '../../lib/api.ts';
import { counts, diffData } from '../../lib/diff.ts';
import { parseEnvLines } from '../../lib/formats.ts';
import { JsonError, parseJson, writeJson, type Data } from '../../lib/json.ts';
import { useAction } from '../../lib/load.ts';
import { allows, useNeeds } from '../../lib/needs.ts';
import {
  apiPath,
  lastSegment,
  parentOf,
  placeText,
  type Metadata,
  type Place,
} from '../../lib/place.ts';
import { readData, versionOf } from '../../lib/reveal.ts';
import { fromHere, go, guard, href } from '../../lib/router.ts';
import { cover } from '../../lib/state.ts';
import { toast } from '../../lib/toasts.ts';
import { plural, visible } from '../../lib/time.ts';
import { confirm, open, Sheet } from '../../parts/dialog.tsx';
import { useKeys } from '../../parts/keys.tsx';
import { Form } from '../../parts/form.tsx';
import { Button, Card, Failed, FormError, Loading, Note, Segments, Tag } from '../../parts/ui.tsx';
import { CodeArea } from '../../parts/code-area.tsx';
import { DiffTable } from './history.tsx';
import { resolveConflict } from './conflict.tsx';
import { mergeThree } from './merge.ts';
import { dataOf, draftOf, problemOf, RowEditor, type Draft } from './rows.tsx';

const BYTES_MAX = 1_048_576;

export function Editor({
  place,
  isNew,
  meta,
  onSaved,
}: {
  place: Place;
  isNew: boolean;
  meta: Metadata | undefined;
  onSaved: () => void;
}) {
  const own = placeText(place);
  const path = apiPath(place, 'data');
  useNeeds([
    { path, cap: 'read' },
    { path, cap: 'patch' },
  ]);
  const mayRead = allows({ path, cap: 'read' });
  const mayPatch = allows({ path, cap: 'patch' });
  const [base, setBase] = useState<Data | undefined>(isNew ? {} : undefined);
  const [version, setVersion] = useState(meta?.current_version ?? 0);
  const [rows, setRows] = useState<Draft[]>(
    isNew ? [{ id: 1, key: '', text: '', isJson: false }] : [],
  );
  const [view, setView] = useState<'table' | 'json'>('table');
  const [text, setText] = useState('');
  const [loadError, setLoadError] = useState<unknown>(undefined);
  const isBlind = !isNew && mayRead === false;
  const saved = useRef(false);
  const current = useRef<Data | undefined>(undefined);

  useEffect(() => {
    if (isNew || mayRead === undefined || base) return;
    if (mayRead === false) {
      setBase({});
      setRows([{ id: 1, key: '', text: '', isJson: false }]);
      return;
    }
    readData(place, 'edit').then(
      ({ data, version: read }) => {
        setBase(data);
        setVersion(read);
        setRows(draftOf(data));
        setText(writeJson(data, 2));
      },
      (error: unknown) => {
        // A deleted secret begins anew, on top of what was.
        if (error instanceof ApiError && error.status === 404) {
          setBase({});
          setVersion((known) => Math.max(known, versionOf(error)));
          setRows([{ id: 1, key: '', text: '', isJson: false }]);
        } else setLoadError(error);
      },
    );
  }, [mayRead, isNew]);

  const parsed = useMemo((): { data?: Data; problem?: string; duplicates?: string[] } => {
    if (view === 'table') {
      const problem = problemOf(rows);
      return problem ? { problem } : { data: dataOf(rows) };
    }
    const duplicates: string[] = [];
    try {
      const made = parseJson(text || '{}', (key, line) => duplicates.push(en.line(key, line)));
      if (made === null || typeof made !== 'object' || Array.isArray(made))
        return { problem: en.aSecretIsAnObjectKey };
      return {
        data: made as Data,
        duplicates,
        ...(duplicates.length ? { problem: en.keysStandTwice(duplicates.join(', ')) } : {}),
      };
    } catch (error) {
      return { problem: error instanceof JsonError ? error.message : String(error) };
    }
  }, [rows, text, view]);
  current.current = parsed.data;
  const changes =
    base && parsed.data ? diffData(base, parsed.data).filter((row) => row.change !== 'same') : [];
  const isDirty =
    base !== undefined &&
    (changes.length > 0 ||
      (parsed.problem !== undefined &&
        (view === 'json' || rows.some((row) => row.key || row.text))));

  // From the moment a change is seen, not from the next frame.
  useLayoutEffect(() => {
    guard.value =
      isDirty && !saved.current
        ? () =>
            confirm({
              title: en.leaveWithoutSaving,
              text: en.whatYouChangedInIsLost(lastSegment(own)),
              action: common.leave,
              danger: true,
            })
        : undefined;
    return () => {
      guard.value = undefined;
    };
  }, [isDirty]);

  const toView = (next: 'table' | 'json'): void => {
    if (next === view) return;
    if (parsed.data) {
      if (next === 'json') setText(writeJson(parsed.data, 2));
      else setRows(draftOf(parsed.data));
      setView(next);
    } else toast(en.mendWhatIsMarkedFirst);
  };

  const write = async (data: Data, cas: number): Promise<void> => {
    const body = writeJson(data);
    if (new Blob([body]).size > BYTES_MAX) throw new Error(en.theSecretIsOver1Mib);
    if (place.mount.version === 1) await call('POST', path, { text: body });
    else if (isBlind) await call('PATCH', path, { text: `{"data":${body}}` });
    else await call('POST', path, { text: `{"data":${body},"options":{"cas":${cas}}}` });
  };
  const save = useAction(async () => {
    const mine = current.current;
    if (!mine || !base || cover.peek()) return;
    const goOn = fromHere();
    const rowsNow = diffData(base, mine);
    if (!(await reviewChanges(rowsNow, isNew, isBlind))) return;
    try {
      await write(mine, version);
    } catch (error) {
      if (
        !(error instanceof ApiError) ||
        error.status !== 400 ||
        !/check-and-set/.test(error.message)
      )
        throw error;
      const theirs = await readData(place, 'edit').catch((caught: unknown) => {
        if (caught instanceof ApiError && caught.status === 404)
          return { data: {} as Data, version: versionOf(caught) };
        throw caught;
      });
      const merged = mergeThree(base, theirs.data, mine);
      const chosen = await resolveConflict(merged, theirs.version);
      if (!chosen) return;
      await write(chosen, theirs.version);
    }
    saved.current = true;
    toast(isNew ? en.secretMade : en.saved);
    onSaved();
    void goOn(href(`s/${own}`), true);
  });
  useKeys({
    save: () => {
      if (parsed.data && !parsed.problem) void save.run();
    },
    back: () => void go(href(isNew ? `s/${parentOf(own)}` : `s/${own}`)),
  });

  if (loadError) return <Failed error={loadError} path={path} />;
  if (!base) return <Loading rows={5} />;
  const total = counts(diffData(base, parsed.data ?? base));
  return (
    <Form
      name="secret/edit"
      class="editor"
      onSubmit={() => (parsed.data && !parsed.problem ? save.run() : undefined)}
    >
      <header class="head">
        <div class="title">
          <h1 class="mono">{visible(lastSegment(own))}</h1>
          <Tag kind={isDirty ? 'warn' : ''}>
            {isNew ? en.newIt : isBlind ? en.patchUnseen : en.editingVersion(version)}
            {isDirty && en.notSaved}
          </Tag>
          <div class="acts">
            <Segments
              label={common.form}
              value={view}
              options={[
                ['table', en.table],
                ['json', common.json],
              ]}
              onChange={toView}
            />
            <Button onClick={() => void go(href(isNew ? `s/${parentOf(own)}` : `s/${own}`))}>
              {common.cancel}
            </Button>
            <Button
              kind="primary"
              type="submit"
              icon="check"
              busy={save.busy}
              disabled={!parsed.data || parsed.problem !== undefined || changes.length === 0}
            >
              {common.save}
            </Button>
          </div>
        </div>
        <span class="path mono">{visible(own)}</span>
      </header>
      <div class="body">
        {isBlind && (
          <Note icon="lock">
            {en.youMayNotReadThisSecret(
              mayPatch === false ? en.yourPoliciesLackPatchTooSo : en.keysThatYouFillInAre,
            )}
          </Note>
        )}
        {view === 'table' ? (
          <RowEditor rows={rows} setRows={setRows} parseLines={parseEnvLines} />
        ) : (
          <Card>
            <CodeArea
              label={en.jsonOfTheSecret}
              value={text}
              onInput={setText}
              language="json"
              errors={
                parsed.problem
                  ? [
                      {
                        line: Number(/line (\d+)/.exec(parsed.problem)?.[1] ?? 0),
                        message: parsed.problem,
                      },
                    ]
                  : []
              }
            />
          </Card>
        )}
        {parsed.problem && <Note kind="warn">{parsed.problem}</Note>}
        <FormError error={save.error} />
        <p class="dim">
          {changes.length === 0
            ? en.nothingChangedYet
            : [
                total.changed && en.changed(total.changed),
                total.added && en.added(total.added),
                total.removed && en.removed(total.removed),
              ]
                .filter(Boolean)
                .join(', ') + en.youSeeTheDifferenceBeforeIt}
          {view === 'json' && en.numbersStayAsYouWriteThem}
        </p>
      </div>
    </Form>
  );
}

function reviewChanges(
  rows: ReturnType<typeof diffData>,
  isNew: boolean,
  isBlind: boolean,
): Promise<boolean> {
  if (isNew || isBlind) return Promise.resolve(true);
  const Review = ({ close }: { close: (yes?: boolean) => void }) => {
    const [isShown, setShown] = useState(false);
    return (
      <Form
        name="secret/review"
        onSubmit={() => {
          close(true);
        }}
      >
        <Sheet
          title={en.save(plural(rows.filter((row) => row.change !== 'same').length, en.change))}
          actions={
            <>
              <Button icon={isShown ? 'eyeoff' : 'eye'} onClick={() => setShown(!isShown)}>
                {isShown ? common.hideValues : common.showValues}
              </Button>
              <span class="grow" />
              <Button onClick={() => close(false)}>{en.back}</Button>
              <Button kind="primary" type="submit" autofocus>
                {common.save}
              </Button>
            </>
          }
        >
          <DiffTable rows={rows} isShown={isShown} left={en.asItIs} right={en.asYouWantIt} />
        </Sheet>
      </Form>
    );
  };
  return open<boolean>((close) => <Review close={close} />).then((yes) => yes === true);
}
