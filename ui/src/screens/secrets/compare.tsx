// Places side by side: dev, staging, production. Equality is told by digests of the values; a key or all missing ones are promoted by one atomic write.
import * as common from '../../en/common.ts';
import * as en from '../../en/screens/secrets/compare.ts';
import { useState } from 'preact/hooks';
import { call } from '../../lib/api.ts';
import { asText, same, writeJson, type Data } from '../../lib/json.ts';
import { useAction, useLoad } from '../../lib/load.ts';
import { apiPath, findPlace, placeText, type Place } from '../../lib/place.ts';
import { go, href, route } from '../../lib/router.ts';
import { plural, visible } from '../../lib/time.ts';
import { toast } from '../../lib/toasts.ts';
import { confirm } from '../../parts/dialog.tsx';
import { Form } from '../../parts/form.tsx';
import {
  Button,
  Card,
  Empty,
  Failed,
  Field,
  FormError,
  Loading,
  Note,
  Page,
  Tag,
} from '../../parts/ui.tsx';
import { readMany } from './transfer.tsx';

const PLACES_MAX = 5;
interface Column {
  place: Place;
  data: Data | undefined;
  version: number;
  why: string;
}

/** Whether a place is there, as far as one knows, and was not read: nothing can be said of its keys, and nothing copied over them. */
const isUnread = (column: Column): boolean => column.why !== '' && column.why !== en.notThere;

export function Compare() {
  const asked = route.value.query.getAll('p').filter(Boolean).slice(0, PLACES_MAX);
  const [texts, setTexts] = useState<string[]>(asked.length >= 2 ? asked : ['', '']);
  const [isShown, setShown] = useState(false);
  const loaded = useLoad(
    asked.length >= 2
      ? async (): Promise<Column[]> => {
          const places = await Promise.all(asked.map(findPlace));
          const read = await readMany(places, 'diff');
          return places.map((place, i) => ({
            place,
            data: read[i]?.data,
            version: read[i]?.version ?? 0,
            why: read[i]?.data
              ? ''
              : read[i]?.status === 404
                ? en.notThere
                : (read[i]?.errors.join('; ') ?? ''),
          }));
        }
      : undefined,
    [asked.join('\n')],
  );
  const columns = loaded.data;
  const keys = columns
    ? [...new Set(columns.flatMap((column) => Object.keys(column.data ?? {})))].sort()
    : [];
  const base = columns?.[0];
  const promote = useAction(async (names: string[], to: number) => {
    const target = columns?.[to];
    if (!base?.data || !target) return;
    if (
      !(await confirm({
        title: en.copyTo(plural(names.length, en.key), placeText(target.place)),
        text: (
          <>
            {en.from} <span class="mono">{placeText(base.place)}</span>:{' '}
            <span class="mono">{names.map(visible).join(', ')}</span>
            {en.otherKeysThereStay}
          </>
        ),
        action: common.copy,
      }))
    )
      return;
    const next: Data = { ...(target.data ?? {}) };
    for (const name of names) if (base.data[name] !== undefined) next[name] = base.data[name];
    await call('POST', 'sys/kallisto/kv/write', {
      text: `{"writes":[{"path":${JSON.stringify(apiPath(target.place, 'data'))},"data":${writeJson(next)}${target.place.mount.version === 2 ? `,"options":{"cas":${target.version}}` : ''}}]}`,
    });
    toast(en.copied(plural(names.length, en.key)));
    loaded.reload();
  });
  const submit = (): void => {
    const pairs = new URLSearchParams();
    for (const text of texts.filter(Boolean)) pairs.append('p', text.replace(/^\/+/, ''));
    const ns = route.peek().query.get('ns');
    if (ns) pairs.set('ns', ns);
    void go(`${href('compare').split('?')[0]}?${pairs.toString().replaceAll('%2F', '/')}`);
  };
  return (
    <Page
      title={en.comparePlaces}
      sub={en.theFirstIsWhatTheOthers}
      actions={
        columns && (
          <Button icon={isShown ? 'eyeoff' : 'eye'} onClick={() => setShown(!isShown)}>
            {isShown ? common.hideValues : common.showValues}
          </Button>
        )
      }
    >
      <Card pad>
        <Form name="compare" class="stack" onSubmit={submit}>
          <div class="filters wide">
            {texts.map((text, i) => (
              <Field
                key={i}
                label={i === 0 ? en.compare : en.withIt}
                value={text}
                onInput={(next) => setTexts(texts.map((one, at) => (at === i ? next : one)))}
                mono
                placeholder={['secret/dev/app', 'secret/staging/app', 'secret/prod/app'][i] ?? ''}
              />
            ))}
          </div>
          <div class="row">
            <Button kind="primary" type="submit" disabled={texts.filter(Boolean).length < 2}>
              {en.compare}
            </Button>
            {texts.length < PLACES_MAX && (
              <Button icon="plus" onClick={() => setTexts([...texts, ''])}>
                {en.anotherPlace}
              </Button>
            )}
          </div>
        </Form>
      </Card>
      <FormError error={promote.error} />
      {loaded.error ? (
        <Failed
          error={loaded.error}
          retry={loaded.reload}
          path="sys/kallisto/kv/read"
          cap="update"
        />
      ) : asked.length < 2 ? (
        <Card>
          <Empty icon="swap" title={en.whichKeysAreMissingInProduction}>
            {en.nameTwoToFivePlacesEvery} <b>{en.diff}</b> {en.inTheAuditLogAndHidden}
          </Empty>
        </Card>
      ) : !columns ? (
        <Loading />
      ) : (
        <Card>
          <div class="scroll-x" tabIndex={0} role="region" aria-label={en.comparison}>
            <table class="matrix">
              <thead>
                <tr>
                  <th>{common.key}</th>
                  {columns.map((column, i) => {
                    const missing =
                      base?.data && !isUnread(column)
                        ? Object.keys(base.data).filter((key) => column.data?.[key] === undefined)
                        : [];
                    return (
                      <th class="mono">
                        <a class="link" href={href(`s/${placeText(column.place)}`)}>
                          {visible(placeText(column.place))}
                        </a>
                        {column.why && (
                          <div>
                            <Tag kind="warn">{visible(column.why)}</Tag>
                          </div>
                        )}
                        {i > 0 && missing.length > 0 && (
                          <div>
                            <Button
                              size="sm"
                              busy={promote.busy}
                              onClick={() => void promote.run(missing, i)}
                            >
                              {en.copy(plural(missing.length, en.missingKey))}
                            </Button>
                          </div>
                        )}
                      </th>
                    );
                  })}
                </tr>
              </thead>
              <tbody>
                {keys.map((key) => (
                  <tr key={key}>
                    <th class="mono" scope="row">
                      {visible(key)}
                    </th>
                    {columns.map((column, i) => {
                      if (isUnread(column)) return <td class="dim">{en.notKnown}</td>;
                      const value = column.data?.[key];
                      const first = base?.data?.[key];
                      const state =
                        value === undefined
                          ? 'missing'
                          : i === 0 || same(value, first)
                            ? 'same'
                            : first === undefined
                              ? en.onlyHere
                              : 'differs';
                      return (
                        <td
                          class={
                            state === 'missing'
                              ? 'miss'
                              : state === 'differs' || state === 'only here'
                                ? 'differs'
                                : ''
                          }
                        >
                          {isShown && value !== undefined ? (
                            <span class="mono">{visible(asText(value))}</span>
                          ) : (
                            <Tag
                              kind={state === 'missing' ? 'bad' : state === 'same' ? 'ok' : 'warn'}
                            >
                              {i === 0 && state === 'same' ? en.set : en.stateOf(state)}
                            </Tag>
                          )}
                          {i > 0 && state !== 'same' && first !== undefined && (
                            <>
                              {' '}
                              <Button
                                size="sm"
                                kind="ghost"
                                onClick={() => void promote.run([key], i)}
                              >
                                {common.copy}
                              </Button>
                            </>
                          )}
                        </td>
                      );
                    })}
                  </tr>
                ))}
              </tbody>
            </table>
          </div>
          {keys.length === 0 && <p class="pad soft">{en.noneOfThemHasAKey}</p>}
        </Card>
      )}
      <Note>{en.copyingWritesANewVersionWith}</Note>
    </Page>
  );
}
