// Home: pinned and recent places, what is due, links not opened, my session; for operators the state of the cluster. Each card fails by itself.
import * as common from '../en/common.ts';
import * as en from '../en/screens/home.ts';
import { ApiError, call, tryCall } from '../lib/api.ts';
import { useLoad } from '../lib/load.ts';
import { can } from '../lib/needs.ts';
import { apiPath, findPlace } from '../lib/place.ts';
import { pinned, recent, sharing } from '../lib/prefs.ts';
import { href } from '../lib/router.ts';
import { search } from '../lib/search.ts';
import { secondsLeft } from '../lib/session.ts';
import { sharedByMe } from '../lib/shares.ts';
import { me, namespace } from '../lib/state.ts';
import { ago, plural, span, visible } from '../lib/time.ts';
import { dueTag } from './secrets/due.tsx';
import { Icon, type IconName } from '../parts/icons.tsx';
import { Card, Empty, LinkButton, Loading, Note, Page, Tag } from '../parts/ui.tsx';

function Places({ title, icon, list }: { title: string; icon: IconName; list: string[] }) {
  const own = list
    .filter((one) => one.startsWith(`${namespace.value}\n`))
    .map((one) => one.slice(one.indexOf('\n') + 1));
  if (own.length === 0) return null;
  return (
    <Card title={title}>
      <ul class="links">
        {own.slice(0, 8).map((place) => (
          <li key={place}>
            <a href={href(`s/${place}`)}>
              <Icon name={icon} />
              <span class="mono grow">{sharing.value ? '••••••••' : visible(place)}</span>
            </a>
          </li>
        ))}
      </ul>
    </Card>
  );
}

const SOON_MS = 30 * 86_400_000;

function Due() {
  const loaded = useLoad(async (signal) => {
    const found = await search('due:<30d', { limit: 40, signal });
    // A server without the search by time answers with all names, so each is looked at.
    const dues = await Promise.all(
      found.hits.map(async ({ place }) => {
        const at = await findPlace(place).catch(() => undefined);
        const reply =
          at && at.mount.version === 2
            ? await tryCall<Record<string, any>>('GET', apiPath(at, 'metadata'), { signal })
            : undefined;
        const due = (reply?.data['custom_metadata'] as Record<string, string> | null)?.['due'];
        return due && Date.parse(due) < Date.now() + SOON_MS ? { place, due } : undefined;
      }),
    );
    return dues
      .filter((one) => one !== undefined)
      .sort((a, b) => a.due.localeCompare(b.due))
      .slice(0, 8);
  }, []);
  if (loaded.error || (loaded.data && loaded.data.length === 0)) return null;
  return (
    <Card title={en.toRotateWithin30Days}>
      {loaded.data ? (
        <ul class="links">
          {loaded.data.map((one) => (
            <li key={one.place}>
              <a href={href(`s/${one.place}`)}>
                <Icon name="clock" />
                <span class="mono grow">{visible(one.place)}</span>
                {dueTag(one.due)}
              </a>
            </li>
          ))}
        </ul>
      ) : (
        <Loading rows={3} />
      )}
    </Card>
  );
}

function Shares() {
  const loaded = useLoad(() => sharedByMe(), []);
  const open = (loaded.data ?? []).filter((one) => one.ends > Date.now());
  if (open.length === 0) return null;
  return (
    <Card
      title={en.linksIMade}
      actions={
        <a class="link" href={href('shared')}>
          {en.all}
        </a>
      }
    >
      <ul class="links">
        {open.slice(0, 5).map((one) => (
          <li key={one.accessor}>
            <span class="cell">
              <Icon name="link" />
              <span class="grow">{visible(one.note)}</span>
              <span class="dim">{en.ends(ago(one.ends))}</span>
            </span>
          </li>
        ))}
      </ul>
    </Card>
  );
}

interface Chain {
  name: string;
  isSound: boolean;
  state: string;
}

/** How each audit device is, and whether its chain goes on where it was left. */
async function chains(): Promise<Chain[]> {
  const names = Object.keys(
    (await call<Record<string, any>>('GET', 'sys/audit', { quiet: true })).data,
  ).map((name) => name.replace(/\/$/, ''));
  return Promise.all(
    names.map(async (name) => {
      const head = (
        await tryCall<{ health: string; chain: string }>('GET', `sys/audit-head/${name}`)
      )?.data;
      const isSound =
        !head || (head.health === 'working' && (head.chain === 'sound' || head.chain === 'new'));
      return {
        name,
        isSound,
        state: !head || isSound ? '' : head.health === 'working' ? head.chain : head.health,
      };
    }),
  );
}

/** When the newest snapshot of a schedule was taken; undefined where there is none. */
async function lastSnapshot(): Promise<string | undefined> {
  const keys =
    (await tryCall<{ keys?: string[] }>('LIST', 'sys/storage/raft/snapshot-auto/config'))?.data
      .keys ?? [];
  const ends = await Promise.all(
    keys.map(async (name) =>
      String(
        (await tryCall<Record<string, any>>('GET', `sys/storage/raft/snapshot-auto/status/${name}`))
          ?.data['last_snapshot_end'] ?? '',
      ),
    ),
  );
  return ends.sort().at(-1) || undefined;
}

/** A server without a cluster has no such route; any other refusal is about the cluster. */
const isAlone = (error: unknown): boolean =>
  error instanceof ApiError && (error.status === 400 || error.status === 404);

function Operators() {
  const mayAutopilot = can('autopilot');
  const mayAudit = can('audit');
  const state = useLoad(
    mayAutopilot
      ? async () =>
          (
            await call<Record<string, any>>('GET', 'sys/storage/raft/autopilot/state', {
              quiet: true,
            })
          ).data
      : undefined,
    [mayAutopilot],
  );
  const devices = useLoad(mayAudit ? chains : undefined, [mayAudit]);
  const snapshot = useLoad(
    mayAutopilot && state.data ? async () => (await lastSnapshot()) ?? '' : undefined,
    [mayAutopilot, state.data !== undefined],
  );
  if (!mayAutopilot && !mayAudit) return null;
  return (
    <Card
      title={en.theServer}
      actions={
        mayAutopilot ? (
          <a class="link" href={href('cluster')}>
            {common.cluster}
          </a>
        ) : undefined
      }
      pad
    >
      {devices.data?.length === 0 && (
        <Note kind="warn" action={<LinkButton href={href('audit')}>{en.enableOne}</LinkButton>}>
          <b>{en.noAuditDevice}</b> {en.nobodyCanSayLaterWhoRead}
        </Note>
      )}
      <dl class="kv">
        {state.data && (
          <>
            <dt>{common.cluster}</dt>
            <dd>
              <Tag
                kind={state.data['healthy'] ? 'ok' : 'bad'}
                icon={state.data['healthy'] ? 'check' : 'warn'}
              >
                {state.data['healthy'] ? en.healthy : en.notHealthy}
              </Tag>
            </dd>
            <dt>{en.failureTolerance}</dt>
            <dd>{state.data['failure_tolerance']}</dd>
          </>
        )}
        {state.error ? (
          <>
            <dt>{common.cluster}</dt>
            {isAlone(state.error) ? (
              <dd class="dim">{en.inMemoryOrAloneNoCluster}</dd>
            ) : (
              <dd>
                <Tag kind="bad" icon="warn">
                  {visible(
                    state.error instanceof Error ? state.error.message : String(state.error),
                  )}
                </Tag>
              </dd>
            )}
          </>
        ) : null}
        {devices.data && devices.data.length > 0 && (
          <>
            <dt>{en.auditDevices}</dt>
            <dd>
              {devices.data.map((one) => (
                <a key={one.name} class={`tag ${one.isSound ? 'ok' : 'bad'}`} href={href('audit')}>
                  {visible(one.name)}
                  {one.state && ` · ${one.state}`}
                </a>
              ))}
            </dd>
          </>
        )}
        {snapshot.data !== undefined && (
          <>
            <dt>{en.lastSnapshot}</dt>
            <dd>
              {snapshot.data ? (
                ago(snapshot.data)
              ) : (
                <a class="link" href={href('snapshots')}>
                  {en.noScheduleYet}
                </a>
              )}
            </dd>
          </>
        )}
      </dl>
    </Card>
  );
}

export function Home() {
  const current = me.value;
  if (!current) return null;
  const left = secondsLeft(Date.now());
  const isFirst = (recent.value ?? []).length === 0 && (pinned.value ?? []).length === 0;
  return (
    <Page
      title={en.hello(visible(current.name))}
      sub={
        left === undefined
          ? en.thisSessionDoesNotEndBy
          : en.leftInThisSession(left < 120 ? span(left) : span(Math.round(left / 60) * 60))
      }
    >
      {isFirst && (
        <Card>
          <Empty
            icon="key"
            title={en.threeWaysToBegin}
            action={
              <>
                <LinkButton kind="primary" href={href('s/')} icon="key">
                  {en.browseSecrets}
                </LinkButton>
                <LinkButton href={href('find')} icon="search">
                  {en.findOneByItsName}
                </LinkButton>
                <LinkButton href={href('shared')} icon="link">
                  {common.shareATextOnce}
                </LinkButton>
              </>
            }
          >
            {en.press} <kbd>Ctrl</kbd> <kbd>K</kbd> {en.anywhereToSearch} <kbd>?</kbd>{' '}
            {en.forAllKeys}
          </Empty>
        </Card>
      )}
      <div class="cards">
        <Places title={en.pinned} icon="star" list={pinned.value ?? []} />
        <Places title={en.recent} icon="clock" list={recent.value ?? []} />
        <Due />
        <Shares />
        <Operators />
        <Card title={en.mySession} pad>
          <dl class="kv">
            <dt>{common.name}</dt>
            <dd>{visible(current.name)}</dd>
            {current.path && (
              <>
                <dt>{en.signedInBy}</dt>
                <dd class="mono">{current.path}</dd>
              </>
            )}
            <dt>{common.policies}</dt>
            <dd class="caps">
              {current.policies.map((name) =>
                can('policies') ? (
                  <a class="tag" href={href(`policies/${name}`)}>
                    {name}
                  </a>
                ) : (
                  <Tag>{name}</Tag>
                ),
              )}
            </dd>
            <dt>{common.namespace}</dt>
            <dd class="mono">{namespace.value || common.root}</dd>
          </dl>
          <p class="dim">
            {en.decideWhatYouSeeHere(
              plural(current.policies.length, en.policy, en.policies),
              current.policies.length === 1,
            )}
          </p>
        </Card>
      </div>
    </Page>
  );
}
