// The records of a device, with filters (contract E10), page by page or as they are written.
import * as common from '../../en/common.ts';
import * as en from '../../en/screens/audit.ts';
import { useEffect, useState } from 'preact/hooks';
import { call } from '../../lib/api.ts';
import { eachLine, openStream } from '../../lib/lines.ts';
import { useAction, useLoad } from '../../lib/load.ts';
import { exact, visible, visibleText, when } from '../../lib/time.ts';
import { open, Sheet } from '../../parts/dialog.tsx';
import { Form } from '../../parts/form.tsx';
import { Button, Card, Empty, Field, FormError, Loading, Select, Tag } from '../../parts/ui.tsx';
import { type AuditDevice } from './devices.ts';

/** A record as the server sends it. */
type Row = Record<string, any>;

/** A request and its answer; one of them may not be there. */
interface Pair {
  id: string;
  request: Row | undefined;
  response: Row | undefined;
}

const LIVE_MAX = 500;
const PAGE = 200;

const NO_FILTERS = {
  path: '',
  operation: '',
  outcome: '',
  entity: '',
  address: '',
  intent: '',
  since: '',
  until: '',
  value: '',
};
type Filters = typeof NO_FILTERS;

/** The newest first: records of one request are one row. */
function paired(records: readonly Row[]): Pair[] {
  const found = new Map<string, Pair>();
  records.forEach((record, i) => {
    const id = String(record['request']?.id ?? en.record(i));
    const pair = found.get(id) ?? { id, request: undefined, response: undefined };
    if (record['type'] === 'response' || record['type'] === 'exchange') pair.response = record;
    else pair.request = record;
    found.set(id, pair);
  });
  return [...found.values()];
}

/** What the server is asked: a value is masked as the device does it, and its mask looked for. */
async function queryOf(device: string, used: Filters): Promise<Record<string, string | undefined>> {
  const time = (text: string): string | undefined =>
    text ? new Date(text).toISOString() : undefined;
  const contains = used.value
    ? (
        await call<{ hash: string }>('POST', `sys/audit-hash/${device}`, {
          body: { input: used.value },
        })
      ).data.hash
    : undefined;
  return {
    path: used.path || undefined,
    operation: used.operation || undefined,
    outcome: used.outcome || undefined,
    entity: used.entity || undefined,
    address: used.address || undefined,
    intent: used.intent || undefined,
    since: time(used.since),
    until: time(used.until),
    contains,
  };
}

function Outcome({ pair }: { pair: Pair }) {
  const error = pair.response?.['error'] ?? pair.request?.['error'];
  if (error) return <Tag kind="bad">{visible(String(error).slice(0, 60))}</Tag>;
  return pair.response ? <Tag kind="ok">{en.ok}</Tag> : <Tag>{en.noAnswerRecorded}</Tag>;
}

function showPair(pair: Pair): void {
  void open<void>((close) => (
    <Sheet
      title={en.requestAndAnswer}
      actions={
        <Button kind="primary" onClick={() => close()}>
          {common.close}
        </Button>
      }
    >
      {(
        [
          [common.request, pair.request],
          [en.answer, pair.response],
        ] as const
      ).map(
        ([title, record]) =>
          record && (
            <>
              <h3>{title}</h3>
              <pre class="json mono" tabIndex={0}>
                {visibleText(JSON.stringify(record, null, 2))}
              </pre>
            </>
          ),
      )}
    </Sheet>
  ));
}

export function Records({ device }: { device: AuditDevice }) {
  const [filters, setFilters] = useState(NO_FILTERS);
  const [used, setUsed] = useState(NO_FILTERS);
  const [older, setOlder] = useState<Row[]>([]);
  const [next, setNext] = useState<string | null | undefined>(undefined);
  const [live, setLive] = useState<Row[] | undefined>(undefined);
  const at = `sys/kallisto/audit/${device.name}/records`;
  const page = async (
    signal: AbortSignal | undefined,
    from?: string,
  ): Promise<{ records: Row[]; next: string | null }> => {
    const { data } = await call<{ records?: Row[]; next?: string | null }>('GET', at, {
      ...(signal ? { signal } : {}),
      quiet: true,
      query: { limit: PAGE, next: from, ...(await queryOf(device.name, used)) },
    });
    return { records: data.records ?? [], next: data.next ?? null };
  };
  const loaded = useLoad((signal) => page(signal), [device.name, JSON.stringify(used)]);
  const more = useAction(async () => {
    const from = next === undefined ? loaded.data?.next : next;
    if (!from) return;
    const found = await page(undefined, from);
    setOlder([...older, ...found.records]);
    setNext(found.next);
  });
  const isLive = live !== undefined;
  const [liveError, setLiveError] = useState<unknown>(undefined);
  useEffect(() => {
    setOlder([]);
    setNext(undefined);
    if (live) setLive([]);
  }, [loaded.data]);
  // One stream while it is followed: each record comes once, and following leaves two records of its own.
  useEffect(() => {
    if (!isLive) return;
    const stop = new AbortController();
    setLiveError(undefined);
    void (async () => {
      const { since: _, until: __, ...query } = await queryOf(device.name, used);
      const stream = await openStream(at, { follow: true, ...query }, stop.signal);
      await eachLine(stream, (lines) =>
        setLive((old) =>
          old
            ? [...lines.map((line) => JSON.parse(line) as Row).reverse(), ...old].slice(0, LIVE_MAX)
            : old,
        ),
      );
      if (!stop.signal.aborted) setLive(undefined);
    })().catch((error: unknown) => {
      if (!stop.signal.aborted) {
        setLiveError(error);
        setLive(undefined);
      }
    });
    return () => stop.abort();
  }, [isLive, device.name, JSON.stringify(used)]);
  const set =
    (key: keyof Filters) =>
    (value: string): void =>
      setFilters({ ...filters, [key]: value });
  const pairs = paired([...(live ?? []), ...(loaded.data?.records ?? []), ...older]);
  const hasMore = Boolean(next === undefined ? loaded.data?.next : next);
  return (
    <Card
      title={en.records}
      actions={
        <>
          <Button
            size="sm"
            icon={isLive ? 'pause' : 'play'}
            pressed={isLive}
            onClick={() => setLive(isLive ? undefined : [])}
          >
            {isLive ? en.following : en.follow}
          </Button>
          <Button size="sm" icon="undo" busy={loaded.busy} onClick={loaded.reload}>
            {en.refresh}
          </Button>
        </>
      }
    >
      <Form
        name="audit/filter"
        class="pad filters"
        onSubmit={() => {
          setUsed(filters);
        }}
      >
        <Field
          label={common.path}
          value={filters.path}
          onInput={set('path')}
          mono
          placeholder="secret/data/*"
        />
        <Field
          label={en.who}
          value={filters.entity}
          onInput={set('entity')}
          mono
          placeholder={en.nameOrEntityId}
        />
        <Select
          label={en.operation}
          value={filters.operation}
          onChange={set('operation')}
          options={[
            ['', en.any],
            ['read', en.read],
            ['create', en.create],
            ['update', en.update],
            ['patch', en.patch],
            ['delete', en.deleteIt],
            ['list', en.list],
          ]}
        />
        <Select
          label={en.outcome}
          value={filters.outcome}
          onChange={set('outcome')}
          options={[
            ['', en.any],
            ['ok', en.allowed],
            ['denied', en.denied],
            ['error', en.failed],
          ]}
        />
        <Select
          label={en.intent}
          value={filters.intent}
          onChange={set('intent')}
          options={[
            ['', en.any],
            ['reveal', en.reveal],
            ['copy', en.copy],
            ['edit', en.edit],
            ['diff', en.compare],
            ['export', en.exportIt],
          ]}
        />
        <Field
          label={en.address}
          value={filters.address}
          onInput={set('address')}
          mono
          placeholder="10.0.0.7"
        />
        <Field label={en.from} type="datetime-local" value={filters.since} onInput={set('since')} />
        <Field label={en.to} type="datetime-local" value={filters.until} onInput={set('until')} />
        <Field
          label={en.knownValue}
          value={filters.value}
          onInput={set('value')}
          masked
          placeholder={en.foundByItsMask}
        />
        <div class="row at-end">
          <Button type="submit" kind="primary" icon="search">
            {common.filter}
          </Button>
          {JSON.stringify(used) !== JSON.stringify(NO_FILTERS) && (
            <Button
              onClick={() => {
                setFilters(NO_FILTERS);
                setUsed(NO_FILTERS);
              }}
            >
              {en.clear}
            </Button>
          )}
        </div>
      </Form>
      {(liveError ?? more.error) ? (
        <div class="pad">
          <FormError error={liveError ?? more.error} />
        </div>
      ) : null}
      {loaded.error ? (
        <div class="pad">
          <FormError error={loaded.error} />
        </div>
      ) : !loaded.data ? (
        <Loading />
      ) : pairs.length === 0 ? (
        <Empty icon="audit" title={en.noRecordMatches} />
      ) : (
        <div class="scroll-x" tabIndex={0} role="region" aria-label={en.records}>
          <table class="grid">
            <thead>
              <tr>
                <th>{en.time}</th>
                <th>{en.who}</th>
                <th>{en.operation}</th>
                <th>{common.path}</th>
                <th>{en.address}</th>
                <th>{en.outcome}</th>
                <th>
                  <span class="sr">{en.more}</span>
                </th>
              </tr>
            </thead>
            <tbody>
              {pairs.map((pair) => {
                const row = pair.response ?? pair.request ?? {};
                const intent = row['request']?.headers?.['x-kallisto-intent'];
                return (
                  <tr key={pair.id}>
                    <td class="nowrap" title={exact(row['time'])}>
                      {when(row['time'])}
                    </td>
                    <td class="nowrap">
                      {visible(row['auth']?.display_name ?? row['auth']?.entity_id ?? '–')}
                    </td>
                    <td class="nowrap">
                      {row['request']?.operation ?? row['type']}
                      {intent && (
                        <>
                          {' '}
                          <Tag kind="accent">{String(intent)}</Tag>
                        </>
                      )}
                    </td>
                    <td class="mono">{visible(row['request']?.path ?? '')}</td>
                    <td class="mono dim">{row['request']?.remote_address ?? ''}</td>
                    <td>
                      <Outcome pair={pair} />
                    </td>
                    <td class="right">
                      <Button
                        size="sm"
                        kind="ghost"
                        icon="more"
                        label={en.wholeRecord}
                        onClick={() => showPair(pair)}
                      />
                    </td>
                  </tr>
                );
              })}
            </tbody>
          </table>
        </div>
      )}
      {loaded.data && hasMore && (
        <div class="pad">
          <Button busy={more.busy} onClick={() => void more.run()}>
            {en.olderRecords}
          </Button>
        </div>
      )}
    </Card>
  );
}
