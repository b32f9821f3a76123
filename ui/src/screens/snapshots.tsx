// Snapshots: take one to a file, check one (contract E13), restore one with what would be lost.
import * as common from '../en/common.ts';
import * as en from '../en/screens/snapshots.ts';
import { useState } from 'preact/hooks';
import { ApiError, call, headersOf, tryCall, urlOf } from '../lib/api.ts';
import { download } from '../lib/download.ts';
import { useAction, useLoad } from '../lib/load.ts';
import { ago, bytes, exact, span, visible } from '../lib/time.ts';
import { toast } from '../lib/toasts.ts';
import { confirm } from '../parts/dialog.tsx';
import { Form } from '../parts/form.tsx';
import {
  Button,
  Card,
  Check,
  Empty,
  Field,
  FormError,
  Loading,
  Note,
  Page,
  Tag,
} from '../parts/ui.tsx';
import { server } from '../lib/state.ts';

interface Writable {
  createWritable(): Promise<WritableStream<Uint8Array>>;
}
type Picker = (options: { suggestedName: string }) => Promise<Writable>;

async function refused(response: Response, path: string): Promise<never> {
  let body: { errors?: string[]; request_id?: string } = {};
  try {
    body = JSON.parse(await response.text()) as typeof body;
  } catch {
    /* A proxy's page, of a file that is too large for it: the status says that. */
  }
  throw new ApiError(response.status, body.errors ?? [], 'POST', path, body.request_id ?? '');
}

const GB = 1e9;
interface Schedule {
  name: string;
  config: Record<string, any>;
  status: Record<string, any> | undefined;
}

/** Snapshots by the clock: what each schedule keeps, and how its last one went. */
/** Where a schedule saves to. */
const placeOf = ({ config }: Schedule): string =>
  String(config['aws_s3_bucket'] || config['path_prefix'] || config['storage_type']);

function Schedules() {
  const at = 'sys/storage/raft/snapshot-auto';
  const loaded = useLoad(async (): Promise<Schedule[] | null> => {
    const { keys = [] } = (
      await call<{ keys?: string[] }>('LIST', `${at}/config`, { quiet: true }).catch(
        (error: unknown) => {
          if (error instanceof ApiError && error.status === 404)
            return { data: { keys: [] as string[] } };
          throw error;
        },
      )
    ).data;
    return Promise.all(
      keys.map(async (name) => ({
        name,
        config: (await call<Record<string, any>>('GET', `${at}/config/${name}`)).data,
        status: (await tryCall<Record<string, any>>('GET', `${at}/status/${name}`))?.data,
      })),
    );
  }, []);
  const [isNew, setNew] = useState(false);
  const [name, setName] = useState('nightly');
  const [every, setEvery] = useState('24h');
  const [keep, setKeep] = useState('7');
  const [folder, setFolder] = useState('/var/backups/kallisto');
  const [space, setSpace] = useState('10');
  const add = useAction(async () => {
    const old = loaded.data?.find((one) => one.name === name);
    if (
      old &&
      !(await confirm({
        title: en.replaceTheSchedule(name),
        text: en.itSavesToNow(visible(placeOf(old))),
        action: en.replace,
        danger: true,
      }))
    )
      return;
    await call('POST', `${at}/config/${name}`, {
      body: {
        interval: every,
        retain: Number(keep),
        storage_type: 'local',
        path_prefix: folder,
        local_max_space: Math.round(Number(space) * GB),
      },
    });
    toast(en.scheduleSaved(name));
    setNew(false);
    loaded.reload();
  });
  const remove = useAction(async (gone: string) => {
    if (
      await confirm({
        title: en.removeTheSchedule(gone),
        text: en.noFurtherSnapshotsAreTakenBy,
        action: en.remove,
        danger: true,
      })
    ) {
      await call('DELETE', `${at}/config/${gone}`);
      loaded.reload();
    }
  });
  if (loaded.error) return null;
  const last = ({ status }: Schedule): preact.ComponentChildren => {
    if (!status) return '–';
    if (status['last_snapshot_error'])
      return <Tag kind="bad">{visible(String(status['last_snapshot_error']).slice(0, 60))}</Tag>;
    return status['last_snapshot_end'] ? (
      <>
        <Tag kind={status['last_snapshot_verified'] === false ? 'warn' : 'ok'}>
          {status['last_snapshot_verified'] === false ? en.notVerified : en.verified}
        </Tag>{' '}
        {ago(String(status['last_snapshot_end']))}
      </>
    ) : (
      <Tag>{en.noneYet}</Tag>
    );
  };
  return (
    <Card
      title={en.schedules}
      actions={
        <Button
          size="sm"
          icon="plus"
          need={{ path: `${at}/config/new`, cap: 'sudo' }}
          onClick={() => setNew(true)}
        >
          {en.newSchedule}
        </Button>
      }
    >
      {!loaded.data ? (
        <Loading rows={2} />
      ) : loaded.data.length === 0 ? (
        <Empty
          icon="clock"
          title={en.noScheduleYet}
          command={`kallisto write ${at}/config/nightly interval=24h retain=7 storage_type=local path_prefix=/var/backups/kallisto local_max_space=10000000000`}
        >
          {en.aScheduleTakesSnapshotsByItself}
        </Empty>
      ) : (
        <div class="scroll-x" tabIndex={0} role="region" aria-label={en.schedules}>
          <table class="grid">
            <thead>
              <tr>
                <th>{common.name}</th>
                <th>{en.every}</th>
                <th class="right">{en.kept}</th>
                <th>{en.where}</th>
                <th>{en.lastSnapshot}</th>
                <th>
                  <span class="sr">{common.actions}</span>
                </th>
              </tr>
            </thead>
            <tbody>
              {loaded.data.map((one) => (
                <tr key={one.name}>
                  <td>
                    <b>{visible(one.name)}</b>
                  </td>
                  <td class="nowrap">{span(Number(one.config['interval']))}</td>
                  <td class="right num">{String(one.config['retain'])}</td>
                  <td class="mono">{visible(placeOf(one))}</td>
                  <td>{last(one)}</td>
                  <td class="right">
                    <Button
                      size="sm"
                      kind="ghost"
                      icon="trash"
                      label={en.removeTheSchedule2(one.name)}
                      onClick={() => void remove.run(one.name)}
                    />
                  </td>
                </tr>
              ))}
            </tbody>
          </table>
        </div>
      )}
      {isNew && (
        <Form name="snapshots/schedule" class="pad stack" onSubmit={() => add.run()}>
          <div class="filters">
            <Field label={common.name} value={name} onInput={setName} mono autofocus />
            <Field label={en.every} value={every} onInput={setEvery} mono hint="24h" />
            <Field label={en.keep} type="number" min={1} value={keep} onInput={setKeep} />
            <Field label={en.folderOnTheServer} value={folder} onInput={setFolder} mono />
            <Field label={en.roomForThem} type="number" min={1} value={space} onInput={setSpace} />
          </div>
          <div class="row">
            <Button kind="primary" type="submit" busy={add.busy} disabled={!name}>
              {en.saveSchedule}
            </Button>
            <Button onClick={() => setNew(false)}>{common.cancel}</Button>
          </div>
        </Form>
      )}
      {(add.error ?? remove.error) ? (
        <div class="pad">
          <FormError error={add.error ?? remove.error} />
        </div>
      ) : null}
    </Card>
  );
}

export function Snapshots() {
  const [file, setFile] = useState<File | undefined>(undefined);
  const [found, setFound] = useState<Record<string, any> | undefined>(undefined);
  const [force, setForce] = useState(false);
  const at = 'sys/storage/raft/snapshot';
  const take = useAction(async () => {
    const name = `kallisto-${server.peek().name || 'cluster'}-${new Date().toISOString().slice(0, 16).replace(/[:T]/g, '-')}.snap`;
    const response = await fetch(urlOf(at), {
      headers: headersOf({}),
      cache: 'no-store',
      credentials: 'omit',
    });
    if (!response.ok || !response.body) return refused(response, at);
    const picker = (globalThis as { showSaveFilePicker?: Picker }).showSaveFilePicker;
    if (picker && isSecureContext) {
      try {
        const handle = await picker({ suggestedName: name });
        await response.body.pipeTo(await handle.createWritable());
        toast(en.isSaved(name));
        return;
      } catch (error) {
        if (error instanceof DOMException && error.name === 'AbortError') return;
        if (response.bodyUsed) throw error;
      }
    }
    const blob = await response.blob();
    download(name, blob);
    toast(`${name}: ${bytes(blob.size)}`);
  });
  const check = useAction(async () => {
    if (!file) return;
    const response = await fetch(urlOf(at, { check: true }), {
      method: 'POST',
      headers: headersOf({}),
      body: file,
      cache: 'no-store',
      credentials: 'omit',
    });
    if (!response.ok) return refused(response, at);
    setFound((JSON.parse(await response.text()) as { data: Record<string, any> }).data);
  });
  const restore = useAction(async () => {
    if (!file) return;
    if (
      !(await confirm({
        title: en.restoreThisSnapshot,
        text: en.everythingThatWasWrittenSinceIt,
        action: en.restore,
        danger: true,
        typed: force ? en.restoreByForce : 'restore',
      }))
    )
      return;
    const path = force ? 'sys/storage/raft/snapshot-force' : at;
    const response = await fetch(urlOf(path), {
      method: 'POST',
      headers: headersOf({}),
      body: file,
      cache: 'no-store',
      credentials: 'omit',
    });
    if (!response.ok) return refused(response, path);
    toast(en.restoredTheClusterMayHaveTo);
    void tryCall('GET', 'auth/token/lookup-self');
  });
  return (
    <Page title={en.snapshots} sub={en.allDataOfTheClusterAs}>
      <div class="two">
        <Card title={en.takeOne} pad>
          <p class="soft">{en.requestsGoOnMeanwhileKeepIt}</p>
          <FormError error={take.error} />
          <div>
            <Button
              kind="primary"
              icon="dl"
              busy={take.busy}
              need={{ path: at, cap: 'read' }}
              onClick={() => void take.run()}
            >
              {en.saveASnapshot}
            </Button>
          </div>
        </Card>
        <Card title={en.checkOrRestore} pad>
          <div class="row">
            <label class="btn">
              {file ? en.anotherFile : en.chooseAFile}
              <input
                type="file"
                class="sr"
                onChange={(event) => {
                  setFile(event.currentTarget.files?.[0]);
                  setFound(undefined);
                }}
              />
            </label>
            {file && (
              <span class="mono">
                {file.name} · {bytes(file.size)}
              </span>
            )}
          </div>
          {file && (
            <div class="row">
              <Button
                icon="check"
                busy={check.busy}
                need={{ path: at, cap: ['update', 'create'] }}
                onClick={() => void check.run()}
              >
                {en.check}
              </Button>
              <Button
                kind="danger"
                icon="undo"
                busy={restore.busy}
                need={{ path: at, cap: ['update', 'create'] }}
                onClick={() => void restore.run()}
              >
                {en.restore}
              </Button>
            </div>
          )}
          {file && (
            <Check
              label={en.byForce}
              hint={en.fromAClusterWithOtherUnseal}
              checked={force}
              onChange={setForce}
            />
          )}
          {found && (
            <Note
              kind={
                found['acceptable'] === false || found['would_be_taken'] === false ? 'bad' : 'ok'
              }
            >
              <dl class="kv">
                {Object.entries(found).map(([key, value]) => (
                  <>
                    <dt>{key.replaceAll('_', ' ')}</dt>
                    <dd class="mono">
                      {typeof value === 'string' && /^\d{4}-/.test(value)
                        ? exact(value)
                        : typeof value === 'number' && key.includes('bytes')
                          ? bytes(value)
                          : typeof value === 'string'
                            ? value
                            : JSON.stringify(value)}
                    </dd>
                  </>
                ))}
              </dl>
            </Note>
          )}
          <FormError error={check.error ?? restore.error} />
        </Card>
      </div>
      <Schedules />
    </Page>
  );
}
