// The server: what it was told without its secrets, its machine, what it is doing, and the two things to set while it runs: durability and log levels.
import * as common from '../../en/common.ts';
import * as en from '../../en/screens/settings/server.ts';
import { call, tryCall } from '../../lib/api.ts';
import { useAction, useLoad } from '../../lib/load.ts';
import { visible, visibleText } from '../../lib/time.ts';
import { toast } from '../../lib/toasts.ts';
import { Button, Card, FormError, Loading, Select } from '../../parts/ui.tsx';

const ASKED = (): [string, string][] => [
  [en.configuration, 'sys/config/state/sanitized'],
  [en.host, 'sys/host-info'],
  [en.requestsInFlight, 'sys/in-flight-req'],
  [en.versionsThatRan, 'sys/version-history'],
];
const LEVELS = ['trace', 'debug', 'info', 'warn', 'error'] as const;
type Level = (typeof LEVELS)[number];

function Durability() {
  const loaded = useLoad(
    async () => (await tryCall<{ mode: string }>('GET', 'sys/durability'))?.data ?? null,
    [],
  );
  const set = useAction(async (mode: 'strict' | 'batch') => {
    await call('PUT', 'sys/durability', { body: { mode } });
    toast(en.durabilityChanged);
    loaded.reload();
  });
  const save = useAction(async () => {
    await call('PUT', 'sys/save');
    toast(en.everythingIsOnDisk);
  });
  if (!loaded.data) return null;
  return (
    <Card title={en.durability} pad>
      <p class="soft">{en.strictAnswersAWriteOnceIt}</p>
      <div class="row end-fields">
        <Select
          label={en.mode}
          value={loaded.data.mode as 'strict' | 'batch'}
          options={[
            ['strict', en.strict],
            ['batch', en.batch],
          ]}
          onChange={(mode) => void set.run(mode)}
        />
        <Button icon="dl" class="at-end" busy={save.busy} onClick={() => void save.run()}>
          {en.flushToDiskNow}
        </Button>
      </div>
      <FormError error={set.error ?? save.error} />
    </Card>
  );
}

function Loggers() {
  const loaded = useLoad(
    async () => (await tryCall<Record<string, string>>('GET', 'sys/loggers'))?.data ?? null,
    [],
  );
  const set = useAction(async (name: string, level: Level) => {
    await call('POST', `sys/loggers/${name}`, { body: { level } });
    loaded.reload();
  });
  const reset = useAction(async () => {
    await call('DELETE', 'sys/loggers');
    toast(en.levelsAreAsConfigured);
    loaded.reload();
  });
  if (!loaded.data) return null;
  return (
    <Card
      title={en.logLevels}
      actions={
        <Button size="sm" icon="undo" busy={reset.busy} onClick={() => void reset.run()}>
          {en.asConfigured}
        </Button>
      }
      pad
    >
      <FormError error={set.error ?? reset.error} />
      <div class="filters">
        {Object.entries(loaded.data).map(([name, level]) => (
          <Select
            key={name}
            label={visible(name)}
            value={level as Level}
            options={LEVELS.map((one) => [one, one] as const)}
            onChange={(next) => void set.run(name, next)}
          />
        ))}
      </div>
    </Card>
  );
}

function Plugins() {
  const loaded = useLoad(
    async () =>
      (
        await tryCall<{ detailed?: { name: string; type: string; version: string }[] }>(
          'GET',
          'sys/plugins/catalog',
        )
      )?.data.detailed ?? null,
    [],
  );
  if (!loaded.data) return null;
  return (
    <Card title={en.enginesOfThisServer}>
      <div class="scroll-x" tabIndex={0} role="region" aria-label={en.enginesOfThisServer}>
        <table class="grid">
          <thead>
            <tr>
              <th>{common.name}</th>
              <th>{common.kind}</th>
              <th>{common.version}</th>
            </tr>
          </thead>
          <tbody>
            {loaded.data.map((one) => (
              <tr key={one.type + one.name}>
                <td class="mono">{visible(one.name)}</td>
                <td>{visible(one.type)}</td>
                <td class="dim">{visible(one.version)}</td>
              </tr>
            ))}
          </tbody>
        </table>
      </div>
    </Card>
  );
}

export function ServerSettings() {
  const loaded = useLoad(
    () =>
      Promise.all(
        ASKED().map(async ([title, path]) => ({
          title,
          path,
          data: (await tryCall(path.endsWith('history') ? 'LIST' : 'GET', path))?.data,
        })),
      ),
    [],
  );
  if (!loaded.data) return <Loading />;
  return (
    <>
      <Durability />
      <Loggers />
      {loaded.data.map(({ title, path, data }) => (
        <Card key={path} title={title} actions={<span class="dim mono">{path}</span>}>
          {data ? (
            <pre class="json mono" tabIndex={0}>
              {visibleText(JSON.stringify(data, null, 2))}
            </pre>
          ) : (
            <p class="pad soft">{en.thisTokenMayNotReadIt}</p>
          )}
        </Card>
      ))}
      <Plugins />
    </>
  );
}
