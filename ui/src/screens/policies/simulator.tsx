// What a policy comes to: paths by capabilities as a grid, the rule that decides each cell, and what would change with the draft (contract E4).
import * as common from '../../en/common.ts';
import * as en from '../../en/screens/policies/simulator.ts';
import { useEffect, useState } from 'preact/hooks';
import { call } from '../../lib/api.ts';
import { useLoad } from '../../lib/load.ts';
import { recent } from '../../lib/prefs.ts';
import { download } from '../../lib/download.ts';
import { me, namespace } from '../../lib/state.ts';
import { visible } from '../../lib/time.ts';
import { rulesOf } from '../../parts/why.tsx';
import { Form } from '../../parts/form.tsx';
import { Button, Card, Field, Loading, Note, Page, Select, Tag } from '../../parts/ui.tsx';

const CAPS = ['create', 'read', 'update', 'delete', 'list', 'sudo'] as const;
export interface Subject {
  kind: 'draft' | 'me' | 'accessor' | 'entity' | 'policies';
  value: string;
}
export interface Draft {
  name: string;
  text: string;
  saved: string;
}
type Cell = Record<string, any>;

/** Answers for each path and capability; one question where the server takes many, else one a cell. */
async function explain(
  subject: Subject,
  paths: string[],
  draft?: { name: string; text: string },
): Promise<Map<string, Cell>> {
  const who =
    subject.kind === 'accessor'
      ? { accessor: subject.value }
      : subject.kind === 'entity'
        ? { entity_id: subject.value }
        : subject.kind === 'policies'
          ? {
              policies: subject.value
                .split(',')
                .map((one) => one.trim())
                .filter(Boolean),
            }
          : subject.kind === 'draft' && draft
            ? { policies: [draft.name] }
            : {};
  const made = new Map<string, Cell>();
  const body = {
    ...who,
    paths,
    capabilities: CAPS,
    ...(draft ? { draft: { [draft.name]: draft.text } } : {}),
  };
  const reply = await call<Record<string, any>>('POST', 'sys/policies/explain', {
    body,
    quiet: true,
  });
  const list = (reply.data['grid'] ?? []) as Cell[];
  for (const cell of list) made.set(`${cell['path']}\n${cell['capability']}`, cell);
  return made;
}

function Grid({
  paths,
  before,
  now,
  picked,
  onPick,
  onRemove,
}: {
  paths: string[];
  before: Map<string, Cell> | undefined;
  now: Map<string, Cell>;
  picked: string;
  onPick: (key: string) => void;
  onRemove: (path: string) => void;
}) {
  return (
    <div class="scroll-x" tabIndex={0} role="region" aria-label={en.rights}>
      <table class="grid6">
        <thead>
          <tr>
            <th>{common.path}</th>
            {CAPS.map((cap) => (
              <th>{cap}</th>
            ))}
            <th>
              <span class="sr">{en.remove}</span>
            </th>
          </tr>
        </thead>
        <tbody>
          {paths.map((path) => (
            <tr key={path}>
              <th class="mono" scope="row">
                {visible(path)}
              </th>
              {CAPS.map((cap) => {
                const key = `${path}\n${cap}`;
                const cell = now.get(key);
                const is = Boolean(cell?.['allowed']);
                const was = before ? Boolean(before.get(key)?.['allowed']) : is;
                const isDenied =
                  !is &&
                  rulesOf(cell ?? {}).some(
                    (rule) => rule.decides && rule.capabilities?.includes('deny'),
                  );
                const word = `${is ? en.allowed : isDenied ? en.denied : en.notAllowed}${is !== was ? (is ? en.newIt : en.takenAway) : ''}`;
                return (
                  <td>
                    <button
                      type="button"
                      class={`cell-btn ${is ? 'y' : isDenied ? 'd' : 'n'} ${is !== was ? 'new' : ''}`}
                      aria-pressed={picked === key}
                      aria-label={en.on(cap, path, word)}
                      title={word}
                      onClick={() => onPick(key)}
                    >
                      {is ? (is !== was ? '+' : '✓') : is !== was ? '−' : isDenied ? '⊘' : '–'}
                    </button>
                  </td>
                );
              })}
              <td>
                <Button
                  size="sm"
                  kind="ghost"
                  icon="close"
                  label={en.leaveOut(path)}
                  onClick={() => onRemove(path)}
                />
              </td>
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  );
}

/** Paths to begin with: what the draft's rules name, with a wildcard filled in. */
function suggested(text: string): string[] {
  const found = [...text.matchAll(/path\s+"([^"]+)"/g)].map((one) =>
    (one[1] ?? '').replace(/\*$/, 'example').replaceAll('+', 'example'),
  );
  const own = (recent.peek() ?? [])
    .filter((one) => one.startsWith(`${namespace.peek()}\n`))
    .slice(0, 2)
    .map((one) => one.slice(one.indexOf('\n') + 1).replace(/^([^/]+)\//, '$1/data/'));
  return [...new Set([...found, ...own])].slice(0, 8);
}

export function Simulator({
  draft,
  onLine,
}: {
  draft?: Draft;
  onLine?: (policy: string, line: number) => void;
}) {
  const [subject, setSubject] = useState<Subject>({ kind: draft ? 'draft' : 'me', value: '' });
  const [paths, setPaths] = useState<string[]>(() => suggested(draft?.text ?? ''));
  const [added, setAdded] = useState('');
  const [picked, setPicked] = useState('');
  const [kept, setKept] = useState<Map<string, boolean> | undefined>(undefined);
  const isReady = subject.kind === 'draft' || subject.kind === 'me' || subject.value !== '';
  const [text, setText] = useState(draft?.text ?? '');
  useEffect(() => {
    const timer = setTimeout(() => setText(draft?.text ?? ''), 350);
    return () => clearTimeout(timer);
  }, [draft?.text]);
  const loaded = useLoad(
    isReady && paths.length > 0
      ? async () => {
          const now = await explain(subject, paths, draft ? { name: draft.name, text } : undefined);
          const before =
            draft && draft.saved !== text
              ? await explain(subject, paths, {
                  name: draft.name,
                  text: draft.saved || '# nothing',
                }).catch(() => undefined)
              : undefined;
          return { now, before };
        }
      : undefined,
    [JSON.stringify(subject), paths.join('\n'), text, draft?.saved ?? ''],
  );
  const now = loaded.data?.now;
  const before = loaded.data?.before;
  const [path = '', cap = ''] = picked.split('\n');
  const cell = now?.get(picked);
  const changed =
    now && before
      ? [...now].filter(
          ([key, one]) => Boolean(one['allowed']) !== Boolean(before.get(key)?.['allowed']),
        )
      : [];
  const gained = changed.filter(([, one]) => one['allowed']).length;
  const off =
    kept && now
      ? [...kept].filter(
          ([key, value]) => now.has(key) && Boolean(now.get(key)?.['allowed']) !== value,
        )
      : [];
  const subjects: readonly (readonly [Subject['kind'], string])[] = [
    ...(draft ? [['draft', `whoever has ${draft.name} alone`] as const] : []),
    ['me', `me, ${me.value?.name ?? ''}${draft ? en.withThisDraft : ''}`],
    ['entity', en.aPersonOrAppByEntity],
    ['accessor', en.aTokenByAccessor],
    ['policies', en.aSetOfPolicies],
  ];
  return (
    <>
      <header class="simhead">
        <h2>{en.whatItComesTo}</h2>
        <span class="grow" />
        {changed.length - gained > 0 && (
          <Tag kind="bad">{en.takenAway2(changed.length - gained)}</Tag>
        )}
        {gained > 0 && <Tag kind="ok">{en.newIt2(gained)}</Tag>}
      </header>
      <div class="row">
        <Select
          label={en.forIt}
          value={subject.kind}
          onChange={(kind) => setSubject({ kind, value: '' })}
          options={subjects}
        />
        {(subject.kind === 'entity' ||
          subject.kind === 'accessor' ||
          subject.kind === 'policies') && (
          <div class="grow">
            <Field
              label={
                subject.kind === 'entity'
                  ? en.entityId
                  : subject.kind === 'accessor'
                    ? en.accessor
                    : common.policiesWithCommas
              }
              value={subject.value}
              onInput={(value) => setSubject({ ...subject, value })}
              mono
            />
          </div>
        )}
      </div>
      <Card>
        {loaded.error ? (
          <div class="pad">
            <Note kind="warn">
              {/unsupported|404/.test(String(loaded.error))
                ? en.thisServerDoesNotSimulateDrafts
                : loaded.error instanceof Error
                  ? loaded.error.message
                  : ''}
            </Note>
          </div>
        ) : now ? (
          <Grid
            paths={paths}
            before={before}
            now={now}
            picked={picked}
            onPick={(key) => {
              setPicked(key);
              const rule = rulesOf(now.get(key) ?? {}).find((one) => one.decides);
              if (rule?.policy && rule.line) onLine?.(rule.policy, rule.line);
            }}
            onRemove={(gone) => setPaths(paths.filter((one) => one !== gone))}
          />
        ) : paths.length > 0 && isReady ? (
          <Loading rows={5} />
        ) : (
          <p class="pad soft">{en.addAPathToSeeWhat}</p>
        )}
        <Form
          name="simulator/path"
          class="addp"
          onSubmit={() => {
            if (added) {
              setPaths([...new Set([...paths, added.replace(/^\/+/, '')])]);
              setAdded('');
            }
          }}
        >
          <Field
            label={en.anotherPath}
            value={added}
            onInput={setAdded}
            mono
            placeholder="secret/data/apps/payments/stripe"
          />
          <Button type="submit" icon="plus">
            {en.add}
          </Button>
        </Form>
      </Card>
      {cell && (
        <Card
          title={
            <>
              {cap} <span class="mono">{visible(path)}</span>?
            </>
          }
          actions={
            <Tag kind={cell['allowed'] ? 'ok' : 'bad'} icon={cell['allowed'] ? 'check' : 'lock'}>
              {cell['allowed'] ? en.yes : en.no}
            </Tag>
          }
          pad
        >
          {rulesOf(cell).length === 0 ? (
            <p class="soft">{cell['reason'] ? `${cell['reason']}.` : en.noRuleMatchesThisPath}</p>
          ) : (
            rulesOf(cell).map((rule) => (
              <div class={`rule ${rule.decides ? (cell['allowed'] ? 'y' : 'd') : ''}`}>
                <Tag kind={rule.decides ? (cell['allowed'] ? 'ok' : 'bad') : ''}>
                  {rule.decides ? common.decides : en.lost}
                </Tag>
                <span class="mono grow">{visible(rule.pattern)}</span>
                <span class="dim">
                  {rule.capabilities?.join(', ')}
                  {rule.policy && ` · ${rule.policy}`}
                  {rule.line ? en.line(rule.line) : ''}
                </span>
                {rule.reason && <p class="dim full">{rule.reason}</p>}
              </div>
            ))
          )}
        </Card>
      )}
      <Card
        title={en.keptExpectations}
        actions={
          <>
            <Button
              size="sm"
              icon="plus"
              disabled={!now}
              onClick={() =>
                now &&
                setKept(new Map([...now].map(([key, one]) => [key, Boolean(one['allowed'])])))
              }
            >
              {en.keepTheseAnswers}
            </Button>
            <label class="btn sm">
              {en.open}
              <input
                type="file"
                class="sr"
                onChange={(event) =>
                  void event.currentTarget.files?.[0]
                    ?.text()
                    .then((json) => {
                      const list = JSON.parse(json) as {
                        path: string;
                        capability: string;
                        allowed: boolean;
                      }[];
                      setKept(
                        new Map(list.map((one) => [`${one.path}\n${one.capability}`, one.allowed])),
                      );
                      setPaths([...new Set([...paths, ...list.map((one) => one.path)])]);
                    })
                    .catch(() => undefined)
                }
              />
            </label>
          </>
        }
        pad
      >
        {!kept ? (
          <p class="soft">{en.keepTheAnswersThatHaveTo}</p>
        ) : (
          <>
            <p class="row">
              <Tag kind={off.length ? 'warn' : 'ok'} icon={off.length ? 'warn' : 'check'}>
                {en.ofHold(kept.size - off.length, kept.size)}
              </Tag>
              <Button
                size="sm"
                icon="dl"
                onClick={() =>
                  download(
                    'expectations.json',
                    JSON.stringify(
                      [...kept].map(([key, allowed]) => {
                        const [at, right] = key.split('\n');
                        return { path: at, capability: right, allowed };
                      }),
                      null,
                      2,
                    ),
                    'application/json',
                  )
                }
              >
                {common.save}
              </Button>
            </p>
            {off.slice(0, 8).map(([key, value]) => (
              <p class="soft">
                {key.split('\n')[1]} {common.on}{' '}
                <span class="mono">{visible(key.split('\n')[0] ?? '')}</span>{' '}
                {en.shouldBe(value ? en.allowed : en.refused)}
              </p>
            ))}
          </>
        )}
      </Card>
    </>
  );
}

export const Simulate = () => (
  <Page title={en.simulator} sub={en.whatSomebodyMayDoAndWhich}>
    <div class="stack">
      <Simulator />
    </div>
  </Page>
);
