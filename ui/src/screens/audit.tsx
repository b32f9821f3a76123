// The audit log: devices, records with filters (contract E10), and the chain verified here in the browser.
import * as common from '../en/common.ts';
import * as en from '../en/screens/audit.ts';
import { useEffect, useRef, useState } from 'preact/hooks';
import { call, tryCall } from '../lib/api.ts';
import { eachLine, openStream } from '../lib/lines.ts';
import { useAction, useLoad } from '../lib/load.ts';
import { count, exact, visible, visibleText, when } from '../lib/time.ts';
import { toast } from '../lib/toasts.ts';
import { startWorker } from '../lib/workers.ts';
import type { Verdict } from '../workers/audit.ts';
import { open, Sheet, confirm } from '../parts/dialog.tsx';
import { Form } from '../parts/form.tsx';
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
  Select,
  Tag,
} from '../parts/ui.tsx';

interface Head {
  seq: number;
  hash: string;
  health: string;
  chain: string;
  public_key?: string;
  error?: string | null;
}
interface Device {
  name: string;
  type: string;
  file: string;
  head?: Head | undefined;
}

async function devices(): Promise<Device[]> {
  const { data } = await call<Record<string, any>>('GET', 'sys/audit');
  return Promise.all(
    Object.entries(data).map(async ([path, one]): Promise<Device> => {
      const name = path.replace(/\/$/, '');
      const head = await tryCall<Head & Record<string, unknown>>('GET', `sys/audit-head/${name}`);
      return { name, type: one['type'], file: one['options']?.file_path ?? '', head: head?.data };
    }),
  );
}

function Enable({ onDone, close }: { onDone: () => void; close: () => void }) {
  const [path, setPath] = useState('/var/log/kallisto/audit.log');
  const run = useAction(async () => {
    await call('POST', 'sys/audit/file', { body: { type: 'file', options: { file_path: path } } });
    toast(en.theAuditDeviceIsOn);
    onDone();
  });
  return (
    <Form name="audit/enable" onSubmit={() => run.run()}>
      <Sheet
        title={en.aNewAuditDevice}
        actions={
          <>
            <Button onClick={close}>{common.cancel}</Button>
            <Button
              kind="primary"
              type="submit"
              busy={run.busy}
              need={{ path: 'sys/audit/file', cap: ['sudo'] }}
              onClick={() => {}}
            >
              {en.enableAFileDevice}
            </Button>
          </>
        }
      >
        <Field label={en.fileOnTheServer} value={path} onInput={setPath} mono required />
        <FormError error={run.error} />
      </Sheet>
    </Form>
  );
}

/** Verifies a file that was chosen, or the lines that the server streams up to its head. */
function Verify({ device }: { device: Device | undefined }) {
  const [verdict, setVerdict] = useState<Verdict | undefined>(undefined);
  const [busy, setBusy] = useState(false);
  const stop = useRef<() => void>(() => undefined);
  useEffect(() => () => stop.current(), []);
  /** `until` is the number of the last record to look at; a file is read to its end. */
  const run = async (
    stream: ReadableStream<Uint8Array<ArrayBuffer>>,
    until: number,
  ): Promise<void> => {
    stop.current();
    setBusy(true);
    setVerdict(undefined);
    const worker = startWorker('audit-worker');
    const reader = stream.getReader();
    let isOver = false;
    const end = (): void => {
      isOver = true;
      worker.terminate();
      void reader.cancel().catch(() => undefined);
      setBusy(false);
    };
    stop.current = end;
    worker.onmessage = (event: MessageEvent<Verdict>) => {
      const done = event.data.done || event.data.wrong !== undefined || event.data.last >= until;
      setVerdict({ ...event.data, done });
      if (done) end();
    };
    try {
      for (;;) {
        const { value, done } = await reader.read();
        if (isOver) return;
        if (value) {
          const buffer = value.slice().buffer;
          worker.postMessage({ chunk: buffer }, [buffer]);
        }
        if (done) {
          worker.postMessage({ last: true });
          return;
        }
      }
    } catch (error) {
      if (!isOver) {
        end();
        throw error;
      }
    }
  };
  const head = device?.head;
  const fromServer = useAction(async () => {
    if (!device || !head) return;
    const control = new AbortController();
    await run(
      await openStream(
        `sys/kallisto/audit/${device.name}/records`,
        { raw: true, follow: true, from_seq: 1 },
        control.signal,
      ),
      head.seq,
    );
    control.abort();
  });
  // The field is emptied, so that the same file can be chosen again after it changed.
  const fromFile = useAction((file: File) => run(file.stream(), Infinity));
  const meets =
    verdict?.done && head && !verdict.wrong
      ? verdict.last >= head.seq
        ? 'ok'
        : 'behind'
      : undefined;
  return (
    <Card title={en.verifyTheChain} pad>
      <p class="soft">{en.eachRecordHoldsTheHashOf}</p>
      {!globalThis.crypto?.subtle && (
        <Note kind="warn">
          {en.hashingNeedsHttpsOrLocalhostUse} <span class="mono">kallisto audit verify</span>{' '}
          {en.instead}
        </Note>
      )}
      <div class="row">
        <Button
          kind="primary"
          icon="check"
          busy={busy || fromServer.busy}
          disabled={!head || head.seq === 0}
          onClick={() => void fromServer.run()}
        >
          {en.verify(device ? device.name : en.aDevice)}
        </Button>
        <label class="btn">
          {en.verifyAFile}
          <input
            type="file"
            class="sr"
            onChange={(event) => {
              const file = event.currentTarget.files?.[0];
              event.currentTarget.value = '';
              if (file) void fromFile.run(file);
            }}
          />
        </label>
      </div>
      <FormError error={fromServer.error ?? fromFile.error} />
      {verdict &&
        (verdict.wrong ? (
          <Note kind="bad">
            <b>{en.theChainBreaksAtRecord(count(verdict.wrong.seq))}</b>{' '}
            {en.lineLinesBeforeItHold(
              count(verdict.wrong.line),
              verdict.wrong.why,
              count(verdict.lines - 1),
            )}
          </Note>
        ) : (
          <Note kind={verdict.done ? 'ok' : 'accent'}>
            <b>
              {verdict.done
                ? en.theChainHoldsTo(count(verdict.last))
                : en.linesSoFar(count(verdict.lines))}
            </b>
            {verdict.done && (
              <>
                {' '}
                {en.linesFromRecord(
                  count(verdict.lines),
                  count(verdict.first),
                  meets === 'ok'
                    ? en.itReachesTheHeadThatThe
                    : meets === 'behind'
                      ? en.theServerStatesTheLinesEnd(count(head?.seq ?? 0))
                      : '',
                )}
              </>
            )}
          </Note>
        ))}
      {head && (
        <dl class="kv">
          <dt>{en.head}</dt>
          <dd class="mono">
            {count(head.seq)} · {head.hash.slice(0, 16)}…
          </dd>
          {head.public_key && (
            <>
              <dt>{en.checkpointKey}</dt>
              <dd class="mono">{head.public_key.slice(0, 28)}…</dd>
            </>
          )}
        </dl>
      )}
    </Card>
  );
}

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

function Records({ device }: { device: Device }) {
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

export function Audit() {
  const loaded = useLoad(devices, []);
  const [name, setName] = useState('');
  if (loaded.error)
    return <Failed error={loaded.error} retry={loaded.reload} path="sys/audit" cap="read" />;
  const list = loaded.data;
  const device = list?.find((one) => one.name === name) ?? list?.find((one) => one.type === 'file');
  const enable = (): void =>
    void open<void>((close) => (
      <Enable
        close={() => close()}
        onDone={() => {
          close();
          loaded.reload();
        }}
      />
    ));
  const disable = async (one: Device): Promise<void> => {
    if (
      await confirm({
        title: en.disable(one.name),
        text: en.requestsAreThenRecordedOnlyBy,
        action: common.disable,
        danger: true,
        typed: one.name,
      })
    ) {
      await call('DELETE', `sys/audit/${one.name}`).then(loaded.reload, (error: Error) =>
        toast(error.message),
      );
    }
  };
  return (
    <Page
      title={en.audit}
      sub={en.everyRequestAndItsAnswerWith}
      actions={
        <Button icon="plus" need={{ path: 'sys/audit/file', cap: 'sudo' }} onClick={enable}>
          {en.enableADevice}
        </Button>
      }
    >
      {!list ? (
        <Loading />
      ) : list.length === 0 ? (
        <Card>
          <Empty
            icon="audit"
            title={en.noAuditDevice}
            action={
              <Button kind="primary" icon="plus" onClick={enable}>
                {en.enableAFileDevice}
              </Button>
            }
            command="kallisto audit enable file file_path=/var/log/kallisto/audit.log"
          >
            {en.nobodyCanSayLaterWhoRead}
          </Empty>
        </Card>
      ) : (
        <>
          <Card title={en.devices}>
            <div class="scroll-x" tabIndex={0} role="region" aria-label={en.devices}>
              <table class="grid">
                <thead>
                  <tr>
                    <th>{en.device}</th>
                    <th>{common.kind}</th>
                    <th>{en.file}</th>
                    <th>{en.records}</th>
                    <th>{common.state}</th>
                    <th>
                      <span class="sr">{common.actions}</span>
                    </th>
                  </tr>
                </thead>
                <tbody>
                  {list.map((one) => (
                    <tr key={one.name}>
                      <td>
                        <b>{one.name}</b>
                      </td>
                      <td>{one.type}</td>
                      <td class="mono">{visible(one.file)}</td>
                      <td class="num">{one.head ? count(one.head.seq) : '–'}</td>
                      <td>
                        {one.head ? (
                          <>
                            <Tag kind={one.head.health === 'working' ? 'ok' : 'bad'}>
                              {one.head.health}
                            </Tag>{' '}
                            <Tag
                              kind={
                                one.head.chain === 'sound' || one.head.chain === 'new'
                                  ? 'ok'
                                  : 'warn'
                              }
                            >
                              {en.chain(one.head.chain)}
                            </Tag>
                          </>
                        ) : (
                          '–'
                        )}
                      </td>
                      <td class="right">
                        <span class="cell-acts">
                          {device?.name !== one.name && one.type === 'file' && (
                            <Button size="sm" onClick={() => setName(one.name)}>
                              {en.look}
                            </Button>
                          )}
                          <Button
                            size="sm"
                            kind="ghost"
                            icon="trash"
                            label={en.disable2(one.name)}
                            need={{ path: `sys/audit/${one.name}`, cap: 'sudo' }}
                            onClick={() => void disable(one)}
                          />
                        </span>
                      </td>
                    </tr>
                  ))}
                </tbody>
              </table>
            </div>
          </Card>
          <Verify device={device} />
          {device && <Records device={device} />}
        </>
      )}
    </Page>
  );
}
