// Metrics: the hour that the server remembers (contract E11) where it does, and live from the Prometheus text every five seconds.
import * as common from '../en/common.ts';
import * as en from '../en/screens/metrics.ts';
import { useEffect, useRef, useState } from 'preact/hooks';
import { call, tryCall } from '../lib/api.ts';
import { download } from '../lib/download.ts';
import { parseProm, rate, sum, type Sample } from '../lib/prom.ts';
import { token } from '../lib/state.ts';
import { Chart, type Series } from '../parts/chart.tsx';
import { Button, Failed, FormError, Loading, Page } from '../parts/ui.tsx';

const EVERY_MS = 5000;
const KEPT = 720;
interface Panel {
  title: string;
  unit?: string;
  query: string;
  series: { name: string; of: (now: Sample, before: Sample | undefined) => number | null }[];
}

const quantile =
  (q: number) =>
  (now: Sample, before: Sample | undefined): number | null => {
    if (!before) return null;
    const buckets = [...(now.get('kallisto_http_request_duration_seconds_bucket') ?? [])]
      .map(([labels, value]) => ({
        le: Number(/le="([^"]+)"/.exec(labels)?.[1]?.replace('+Inf', 'Infinity')),
        value:
          value - (before.get('kallisto_http_request_duration_seconds_bucket')?.get(labels) ?? 0),
      }))
      .sort((a, b) => a.le - b.le);
    const total = buckets.at(-1)?.value ?? 0;
    if (total <= 0) return null;
    const hit = buckets.find((one) => one.value >= total * q);
    return hit && Number.isFinite(hit.le) ? hit.le * 1000 : (buckets.at(-2)?.le ?? 0) * 1000;
  };

const PANELS: Panel[] = [
  {
    title: en.requestsPerSecond,
    query: 'sum(rate(kallisto_requests_total[1m]))',
    series: [{ name: 'requests', of: rate('kallisto_requests_total') }],
  },
  {
    title: en.latency,
    unit: en.ms,
    query:
      'histogram_quantile(0.99, sum by (le) (rate(kallisto_http_request_duration_seconds_bucket[1m]))) * 1000',
    series: [
      { name: 'p99', of: quantile(0.99) },
      { name: en.median, of: quantile(0.5) },
    ],
  },
  {
    title: en.refusedAndFailedPerSecond,
    query: 'sum by (class) (rate(kallisto_http_replies_total{class=~"4xx|5xx"}[1m]))',
    series: [
      { name: '4xx', of: rate('kallisto_http_replies_total', /4xx|"4/) },
      { name: '5xx', of: rate('kallisto_http_replies_total', /5xx|"5/) },
    ],
  },
  {
    title: en.requestsInFlight,
    query: 'vault_core_in_flight_requests',
    series: [{ name: en.inFlight, of: sum('vault_core_in_flight_requests') }],
  },
  {
    title: common.secrets,
    query: 'sum(vault_secret_kv_count)',
    series: [{ name: en.secretsCounted, of: sum('vault_secret_kv_count') }],
  },
  {
    title: en.tokensAndLeases,
    query: 'vault_token_count; vault_expire_num_leases',
    series: [
      { name: 'tokens', of: sum('vault_token_count') },
      { name: 'leases', of: sum('vault_expire_num_leases') },
    ],
  },
  {
    title: en.hotTable,
    query: 'kallisto_hot_entries',
    series: [{ name: 'entries', of: sum('kallisto_hot_entries') }],
  },
  {
    title: en.hotTableMemory,
    unit: en.mb,
    query: 'kallisto_hot_entry_bytes / 1e6',
    series: [
      { name: 'entries', of: (now) => (sum('kallisto_hot_entry_bytes')(now) ?? 0) / 1e6 },
      { name: 'index', of: (now) => (sum('kallisto_index_memory_bytes')(now) ?? 0) / 1e6 },
    ],
  },
  {
    title: en.storageOperationsPerSecond,
    query: 'rate(vault_barrier_put_count[1m])',
    series: [
      { name: 'put', of: rate('vault_barrier_put_count') },
      { name: 'get', of: rate('vault_barrier_get_count') },
      { name: 'list', of: rate('vault_barrier_list_count') },
    ],
  },
  {
    title: en.raftStaleness,
    unit: 's',
    query: 'kallisto_raft_staleness_seconds',
    series: [{ name: 'staleness', of: sum('kallisto_raft_staleness_seconds') }],
  },
  {
    title: en.admissionRefusedPerSecond,
    query: 'sum(rate(kallisto_admission_refused_total[1m]))',
    series: [{ name: 'refused', of: rate('kallisto_admission_refused_total') }],
  },
  {
    title: en.connections,
    query: 'kallisto_listener_connections',
    series: [{ name: 'open', of: sum('kallisto_listener_connections') }],
  },
  {
    title: en.memory,
    unit: en.mb,
    query: 'process_resident_memory_bytes / 1e6',
    series: [
      { name: 'resident', of: (now) => (sum('process_resident_memory_bytes')(now) ?? 0) / 1e6 },
    ],
  },
  {
    title: en.processor,
    unit: en.cores,
    query: 'rate(process_cpu_seconds_total[1m])',
    series: [{ name: 'used', of: rate('process_cpu_seconds_total') }],
  },
  {
    title: en.openFiles,
    query: 'process_open_fds',
    series: [{ name: 'open', of: sum('process_open_fds') }],
  },
];

export function Metrics() {
  const [samples, setSamples] = useState<{ time: number; sample: Sample }[]>([]);
  const [error, setError] = useState<unknown>(undefined);
  const [isPaused, setPaused] = useState(false);
  const paused = useRef(false);
  paused.current = isPaused;
  const ask = async (): Promise<void> => {
    if (document.hidden || paused.current || !token.peek()) return;
    try {
      const reply = await call('GET', 'sys/metrics', { query: { format: 'prometheus' } });
      setSamples((old) =>
        [...old, { time: Date.now(), sample: parseProm(String(reply.body['text'] ?? '')) }].slice(
          -KEPT,
        ),
      );
      setError(undefined);
    } catch (caught) {
      setError(caught);
    }
  };
  useEffect(() => {
    void tryCall<Record<string, any>>('GET', 'sys/kallisto/metrics', {
      query: { minutes: 60 },
    }).then((reply) => {
      const past = pastSamples(reply?.data);
      if (past.length > 0) setSamples((old) => [...past, ...old].slice(-KEPT));
    });
    void ask();
    const timer = setInterval(() => void ask(), EVERY_MS);
    return () => clearInterval(timer);
  }, []);
  if (error && samples.length === 0)
    return <Failed error={error} retry={() => void ask()} path="sys/metrics" />;
  if (samples.length === 0)
    return (
      <Page title={en.metrics}>
        <Loading rows={8} />
      </Page>
    );
  const times = samples.map((one) => one.time);
  const dashboard = (): void =>
    download(
      'kallisto-grafana.json',
      JSON.stringify(
        {
          title: en.kallisto,
          schemaVersion: 39,
          time: { from: 'now-1h', to: 'now' },
          panels: PANELS.map((panel, i) => ({
            id: i + 1,
            type: 'timeseries',
            title: panel.title,
            gridPos: { h: 8, w: 8, x: (i % 3) * 8, y: Math.floor(i / 3) * 8 },
            targets: panel.query.split('; ').map((expr, at) => ({ refId: 'ABC'[at], expr })),
          })),
        },
        null,
        2,
      ),
      'application/json',
    );
  return (
    <Page
      title={en.metrics}
      sub={
        samples.length < 3 ? en.fillsFromNowOnEveryFive : en.samplesEveryFiveSeconds(samples.length)
      }
      actions={
        <>
          <Button icon={isPaused ? 'play' : 'pause'} onClick={() => setPaused(!isPaused)}>
            {isPaused ? common.goOn : en.pause}
          </Button>
          <Button icon="dl" onClick={dashboard}>
            {en.grafanaDashboard}
          </Button>
        </>
      }
    >
      <FormError error={error} />
      <div class="charts">
        {PANELS.map((panel) => (
          <Chart
            key={panel.title}
            title={panel.title}
            unit={panel.unit ?? ''}
            query={panel.query}
            times={times}
            series={panel.series.map((one): Series => ({
              name: one.name,
              values: samples.map(({ sample, time }, i) => {
                const before = samples[i - 1];
                const value = one.of(sample, before?.sample);
                return value === null
                  ? null
                  : before && one.of.name === 'perSecond'
                    ? value / Math.max(0.5, (time - before.time) / 1000)
                    : value;
              }),
            }))}
          />
        ))}
      </div>
    </Page>
  );
}

/** The hour that the server remembers: series by name with a value each five seconds. */
function pastSamples(data: Record<string, any> | undefined): { time: number; sample: Sample }[] {
  const series = data?.['series'];
  const times = (data?.['times'] ?? data?.['time']) as (string | number)[] | undefined;
  if (!series || !Array.isArray(times)) return [];
  const rows = Array.isArray(series)
    ? (series as Record<string, any>[]).map(
        (one) =>
          [
            one['name'] as string,
            (one['labels'] ?? '') as string,
            one['values'] as number[],
          ] as const,
      )
    : Object.entries(series as Record<string, number[]>).map(
        ([name, values]) => [name, '', values] as const,
      );
  return times.map((time, i) => {
    const sample: Sample = new Map();
    for (const [name, labels, values] of rows) {
      const value = values[i];
      if (typeof value === 'number')
        (sample.get(name) ?? sample.set(name, new Map()).get(name))?.set(
          typeof labels === 'string' ? labels : JSON.stringify(labels),
          value,
        );
    }
    return {
      time: typeof time === 'number' ? time * (time < 1e12 ? 1000 : 1) : Date.parse(time),
      sample,
    };
  });
}
