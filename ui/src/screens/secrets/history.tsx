// Versions of a secret, and what differs between two. Names of changed keys come with the values, so both versions are read when somebody asks for them.
import * as common from '../../en/common.ts';
import * as en from '../../en/screens/secrets/history.ts';
import { useEffect, useState } from 'preact/hooks';
import { ApiError, call } from '../../lib/api.ts';
import { counts, diffData, lineDiff, parts, textOf, type Row } from '../../lib/diff.ts';
import { toEnv } from '../../lib/formats.ts';
import { writeJson, type Data, type Json } from '../../lib/json.ts';
import { kindOf } from '../../lib/kinds.ts';
import { useAction, useLoad } from '../../lib/load.ts';
import {
  apiPath,
  placeText,
  stateOf,
  type Metadata,
  type Place,
  type VersionInfo,
} from '../../lib/place.ts';
import { readData } from '../../lib/reveal.ts';
import { route, setQuery } from '../../lib/router.ts';
import { toast } from '../../lib/toasts.ts';
import { exact, plural, span, visible, visibleText, when } from '../../lib/time.ts';
import { confirm } from '../../parts/dialog.tsx';
import { useKeys } from '../../parts/keys.tsx';
import {
  Button,
  Card,
  Empty,
  Failed,
  FormError,
  Loading,
  Note,
  Segments,
  Tag,
} from '../../parts/ui.tsx';
import { Mask } from './values.tsx';

type View = 'fields' | 'json' | 'env';
/** Masks are shown by a click; a diff of hidden values shows which keys differ and nothing else. */
function Cell({
  value,
  other,
  side,
  isShown,
}: {
  value: Json | undefined;
  other: Json | undefined;
  side: 'o' | 'n';
  isShown: boolean;
}) {
  if (value === undefined) return <span class="none">{en.notThere}</span>;
  if (!isShown) {
    const kind = kindOf(value);
    return (
      <>
        <Mask />
        {kind && (
          <>
            {' '}
            <Tag>{kind.label}</Tag>
          </>
        )}
      </>
    );
  }
  const [a, b] = parts(textOf(side === 'o' ? value : other), textOf(side === 'o' ? other : value));
  const own =
    other === undefined ? [{ text: textOf(value), isChanged: false }] : side === 'o' ? a : b;
  return (
    <>
      {own.map((part) =>
        part.isChanged ? (
          side === 'o' ? (
            <del>{visibleText(part.text)}</del>
          ) : (
            <ins>{visibleText(part.text)}</ins>
          )
        ) : (
          visibleText(part.text)
        ),
      )}
    </>
  );
}
const SIGNS = {
  changed: ['~', 'chg'],
  added: ['+', 'add'],
  removed: ['−', 'del'],
  same: ['', 'same'],
} as const;

export function DiffTable({
  rows,
  isShown,
  left,
  right,
}: {
  rows: Row[];
  isShown: boolean;
  left: string;
  right: string;
}) {
  const [all, setAll] = useState(false);
  const same = rows.filter((row) => row.change === 'same');
  const shown = rows.filter((row) => all || row.change !== 'same');
  return (
    <Card>
      <div class="scroll-x" tabIndex={0} role="region" aria-label={en.comparison}>
        <table class="diff">
          <thead>
            <tr>
              <th class="g">
                <span class="sr">{common.kind}</span>
              </th>
              <th>{common.key}</th>
              <th>{left}</th>
              <th>{right}</th>
            </tr>
          </thead>
          <tbody>
            {shown.map((row) => (
              <tr class={SIGNS[row.change][1]} key={row.key}>
                <td class="g">
                  <span aria-hidden="true">{SIGNS[row.change][0]}</span>
                  <span class="sr">{en.change(row.change)}</span>
                </td>
                <td class="k mono">{visible(row.key)}</td>
                <td class="o mono">
                  <Cell value={row.old} other={row.now} side="o" isShown={isShown} />
                </td>
                <td class="n mono">
                  <Cell value={row.now} other={row.old} side="n" isShown={isShown} />
                </td>
              </tr>
            ))}
            {same.length > 0 && !all && (
              <tr class="foldrow">
                <td colSpan={4}>
                  <button type="button" class="link" onClick={() => setAll(true)}>
                    {en.theSame(
                      plural(same.length, en.keyIs, en.keysAre),
                      same
                        .slice(0, 8)
                        .map((row) => visible(row.key))
                        .join(', '),
                    )}
                    {same.length > 8 && '…'}
                  </button>
                </td>
              </tr>
            )}
            {rows.length === 0 && (
              <tr class="foldrow">
                <td colSpan={4}>{en.bothAreEmpty}</td>
              </tr>
            )}
          </tbody>
        </table>
      </div>
    </Card>
  );
}

function Lines({ old, now }: { old: string; now: string }) {
  return (
    <Card>
      <pre class="lines mono" tabIndex={0}>
        {lineDiff(old, now).map((line) => (
          <span class={line.mark === '+' ? 'add' : line.mark === '-' ? 'del' : ''}>
            <i aria-hidden="true">{line.mark}</i>
            {visible(line.text)}
            {'\n'}
          </span>
        ))}
      </pre>
    </Card>
  );
}

export function History({
  place,
  meta,
  metaError,
  reload,
}: {
  place: Place;
  meta: Metadata | undefined;
  metaError: unknown;
  reload: () => void;
}) {
  const { query } = route.value;
  const versions = meta?.versions ?? [];
  const readable = versions.filter((one) => stateOf(one) === 'there');
  const b = Number(query.get('b')) || readable[0]?.version || 0;
  const a = Number(query.get('a')) || readable[1]?.version || 0;
  const [isShown, setShown] = useState(false);
  const [view, setView] = useState<View>('fields');
  const both = useLoad(
    a && b
      ? async () => {
          const [left, right] = await Promise.all([
            readData(place, 'diff', a),
            readData(place, 'diff', b),
          ]);
          return { left: left.data, right: right.data };
        }
      : undefined,
    [a, b, placeText(place)],
  );
  useEffect(() => {
    const hide = (): void => setShown(false);
    addEventListener('blur', hide);
    addEventListener('beforeprint', hide);
    return () => {
      removeEventListener('blur', hide);
      removeEventListener('beforeprint', hide);
    };
  }, []);
  const pick = (version: number): void =>
    setQuery({
      a: String(Math.min(version, b) === version ? version : b),
      b: String(Math.max(version, b)),
    });
  const at = readable.findIndex((one) => one.version === a);
  useKeys({
    older: () => {
      const next = readable[at + 1];
      if (next) setQuery({ a: String(next.version), b: String(b) });
    },
    newer: () => {
      const next = readable[at - 1];
      if (next && next.version < b) setQuery({ a: String(next.version), b: String(b) });
    },
    reveal: () => setShown(!isShown),
  });
  const restore = useAction(async () => {
    if (!meta || !both.data) return;
    await call('POST', apiPath(place, 'data'), {
      text: `{"data":${writeJson(both.data.left)},"options":{"cas":${meta.current_version}}}`,
    });
    toast(en.versionHoldsWhatHolds(meta.current_version + 1, a));
    setQuery({ a: undefined, b: undefined });
    reload();
  });
  if (metaError)
    return <Failed error={metaError} retry={reload} path={apiPath(place, 'metadata')} />;
  if (!meta) return <Loading />;
  const rows = both.data ? diffData(both.data.left, both.data.right) : [];
  const total = counts(rows);
  const infoOf = (version: number): VersionInfo | undefined =>
    versions.find((one) => one.version === version);
  const label = (version: number): string => {
    const info = infoOf(version);
    return en.version(
      version,
      info?.created_by?.display_name ? ` · ${info.created_by.display_name}` : '',
      when(info?.created_time ?? ''),
    );
  };
  const apart =
    (Date.parse(infoOf(b)?.created_time ?? '') - Date.parse(infoOf(a)?.created_time ?? '')) / 1000;
  return (
    <div class="hist">
      <section class="line" aria-label={common.versions}>
        <header>
          <h2>{en.history}</h2>
          <span class="dim">
            {en.kept(plural(meta.current_version, common.version2), versions.length)}
          </span>
        </header>
        <ol class="vs">
          {versions.map((one) => (
            <Version
              key={one.version}
              one={one}
              meta={meta}
              place={place}
              reload={reload}
              mark={one.version === a ? 'a' : one.version === b ? 'b' : ''}
              onPick={() => pick(one.version)}
            />
          ))}
        </ol>
        {meta.oldest_version > 1 && (
          <p class="pad dim">{en.keptFromVersionOnOlderOnes(meta.oldest_version)}</p>
        )}
      </section>
      <section class="cmp" aria-label={en.comparison}>
        {readable.length < 2 && !(query.get('a') && query.get('b')) ? (
          <Empty
            icon="swap"
            title={versions.length < 2 ? en.oneVersionSoFar : en.oneReadableVersion}
          >
            {en.withASecondOneThisShows}
          </Empty>
        ) : (
          <>
            <div class="cmpbar">
              <h2 class="big-title">{en.whatChanged}</h2>
              <span class="grow" />
              <Segments
                label={en.view}
                value={view}
                options={[
                  ['fields', en.fields],
                  ['json', common.json],
                  ['env', '.env'],
                ]}
                onChange={setView}
              />
              <Button icon={isShown ? 'eyeoff' : 'eye'} onClick={() => setShown(!isShown)}>
                {isShown ? common.hideValues : common.showValues}
              </Button>
              <Button
                kind="primary"
                icon="undo"
                busy={restore.busy}
                disabled={!both.data || a === meta.current_version}
                need={{ path: apiPath(place, 'data'), cap: ['update', 'create'] }}
                onClick={() =>
                  void confirm({
                    title: en.restoreVersionAs(a, meta.current_version + 1),
                    text: en.versionWillHoldWhatHoldsNothing(meta.current_version + 1, a),
                    action: en.restoreAs(a, meta.current_version + 1),
                  }).then((yes) => {
                    if (yes) void restore.run();
                  })
                }
              >
                {en.restoreAs(a, meta.current_version + 1)}
              </Button>
            </div>
            <div class="cmpbar">
              <span class="vpill a">{en.aVersion(a)}</span>
              <Button
                kind="ghost"
                size="sm"
                icon="swap"
                label={en.swapSides}
                onClick={() => setQuery({ a: String(b), b: String(a) })}
              />
              <span class="vpill b">{en.bVersion(b)}</span>
              {apart >= 1 && <span class="dim">{en.apart(span(apart))}</span>}
              <span class="grow" />
              {total.changed > 0 && <Tag>{en.changed(total.changed)}</Tag>}
              {total.added > 0 && <Tag kind="ok">{en.added(total.added)}</Tag>}
              {total.removed > 0 && <Tag kind="bad">{en.removed(total.removed)}</Tag>}
            </div>
            <FormError
              error={
                restore.error instanceof ApiError && /check-and-set/.test(restore.error.message)
                  ? new Error(en.somebodyWasFasterThereIsA)
                  : restore.error
              }
            />
            {both.error ? (
              <Failed error={both.error} retry={both.reload} path={apiPath(place, 'data')} />
            ) : !both.data ? (
              <Loading rows={5} />
            ) : view === 'fields' ? (
              <DiffTable
                rows={rows}
                isShown={isShown}
                left={`A · ${label(a)}`}
                right={`B · ${label(b)}`}
              />
            ) : isShown ? (
              <Lines old={asLines(both.data.left, view)} now={asLines(both.data.right, view)} />
            ) : (
              <Note icon="eyeoff">{en.valuesAreHiddenShowThemTo}</Note>
            )}
            <div class="two">
              <Card title={en.beforeYouRestore} pad>
                <p class="soft">
                  {en.versionWouldHoldWhatHoldsNothing(meta.current_version + 1, a)}{' '}
                  <span class="mono">cas = {meta.current_version}</span>
                  {en.ifSomebodyIsFasterNothingIs}
                </p>
              </Card>
              <Card title={en.version2(b)} pad>
                <dl class="kv">
                  <dt>{en.written}</dt>
                  <dd>{exact(infoOf(b)?.created_time ?? '')}</dd>
                  {infoOf(b)?.created_by && (
                    <>
                      <dt>{en.by}</dt>
                      <dd>
                        {visible(infoOf(b)?.created_by?.display_name ?? '')}
                        {infoOf(b)?.created_by?.mount && (
                          <span class="dim"> · {infoOf(b)?.created_by?.mount}</span>
                        )}
                      </dd>
                    </>
                  )}
                  {infoOf(b)?.request_id && (
                    <>
                      <dt>{common.request}</dt>
                      <dd class="mono">{infoOf(b)?.request_id}</dd>
                    </>
                  )}
                </dl>
              </Card>
            </div>
          </>
        )}
      </section>
    </div>
  );
}
const asLines = (data: Data, view: View): string =>
  view === 'env'
    ? toEnv(data)
    : writeJson(Object.fromEntries(Object.entries(data).sort(([a], [b]) => a.localeCompare(b))), 2);

function Version({
  one,
  meta,
  place,
  reload,
  mark,
  onPick,
}: {
  one: VersionInfo;
  meta: Metadata;
  place: Place;
  reload: () => void;
  mark: '' | 'a' | 'b';
  onPick: () => void;
}) {
  const state = stateOf(one);
  const act = useAction(async (noun: 'undelete' | 'destroy' | 'delete') => {
    await call(noun === 'destroy' ? 'PUT' : 'POST', apiPath(place, noun), {
      body: { versions: [one.version] },
    });
    reload();
  });
  const destroy = async (): Promise<void> => {
    if (
      await confirm({
        title: en.destroyVersion(one.version),
        text: en.itsValuesAreRemovedForGood,
        action: en.destroy,
        danger: true,
        typed: en.destroy2(one.version),
      })
    )
      await act.run('destroy');
  };
  return (
    <li class={`${mark ? 'sel' : ''} ${state !== 'there' ? 'gone' : ''}`}>
      <span class="ab">
        <button
          type="button"
          class={`pick ${mark}`}
          disabled={state !== 'there'}
          aria-pressed={mark !== ''}
          aria-label={en.compareVersion(one.version)}
          onClick={onPick}
        >
          {mark.toUpperCase()}
        </button>
      </span>
      <div class="v">
        <div class="r">
          <b>{en.version3(one.version)}</b>
          {one.version === meta.current_version && <Tag kind="ok">{en.current}</Tag>}
          {state === 'deleted' && <Tag kind="warn">{common.deleted}</Tag>}
          {state === 'destroyed' && <Tag kind="bad">{en.destroyed}</Tag>}
        </div>
        <p>
          {one.created_by?.display_name && (
            <>
              <span class="by">{visible(one.created_by.display_name)}</span> ·{' '}
            </>
          )}
          <time title={exact(one.created_time)}>{when(one.created_time)}</time>
        </p>
        {state !== 'there' && (
          <p>
            {state === 'destroyed' ? en.destroyed : en.deleted(when(one.deletion_time))}
            {one.deleted_by?.display_name && en.by2(visible(one.deleted_by.display_name))}
          </p>
        )}
        <p class="v-acts">
          {state === 'deleted' && (
            <Button
              size="sm"
              kind="ghost"
              busy={act.busy}
              need={{ path: apiPath(place, 'undelete'), cap: ['update', 'create'] }}
              onClick={() => void act.run('undelete')}
            >
              {en.undelete}
            </Button>
          )}
          {state === 'there' && (
            <Button
              size="sm"
              kind="ghost"
              busy={act.busy}
              need={{ path: apiPath(place, 'delete'), cap: ['update', 'create'] }}
              onClick={() => void act.run('delete')}
            >
              {common.deleteIt}
            </Button>
          )}
          {state !== 'destroyed' && (
            <Button
              size="sm"
              kind="ghost"
              need={{ path: apiPath(place, 'destroy'), cap: ['update', 'create'] }}
              onClick={() => void destroy()}
            >
              {en.destroy}
            </Button>
          )}
        </p>
        <FormError error={act.error} />
      </div>
    </li>
  );
}
