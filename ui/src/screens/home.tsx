// Home: pinned and recent places, what is due, links not opened, my session; for operators the state of the cluster. Each card fails by itself.
import { call, tryCall } from '../lib/api.ts';
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
  const own = list.filter((one) => one.startsWith(`${namespace.value}\n`)).map((one) => one.slice(one.indexOf('\n') + 1));
  if (own.length === 0) return null;
  return <Card title={title}><ul class="links">{own.slice(0, 8).map((place) => <li key={place}><a href={href(`s/${place}`)}><Icon name={icon} /><span class="mono grow">{sharing.value ? '••••••••' : visible(place)}</span></a></li>)}</ul></Card>;
}

const SOON_MS = 30 * 86_400_000;

function Due() {
  const loaded = useLoad(async (signal) => {
    const found = await search('due:<30d', { limit: 40, signal });
    // A server without the search by time answers with all names, so each is looked at.
    const dues = await Promise.all(found.hits.map(async ({ place }) => {
      const at = await findPlace(place).catch(() => undefined);
      const reply = at && at.mount.version === 2 ? await tryCall<Record<string, any>>('GET', apiPath(at, 'metadata'), { signal }) : undefined;
      const due = (reply?.data['custom_metadata'] as Record<string, string> | null)?.['due'];
      return due && Date.parse(due) < Date.now() + SOON_MS ? { place, due } : undefined;
    }));
    return dues.filter((one) => one !== undefined).sort((a, b) => a.due.localeCompare(b.due)).slice(0, 8);
  }, []);
  if (loaded.error || (loaded.data && loaded.data.length === 0)) return null;
  return <Card title="To rotate within 30 days">{loaded.data ? <ul class="links">{loaded.data.map((one) => <li key={one.place}><a href={href(`s/${one.place}`)}><Icon name="clock" /><span class="mono grow">{visible(one.place)}</span>{dueTag(one.due)}</a></li>)}</ul> : <Loading rows={3} />}</Card>;
}

function Shares() {
  const loaded = useLoad(() => sharedByMe(), []);
  const open = (loaded.data ?? []).filter((one) => one.ends > Date.now());
  if (open.length === 0) return null;
  return <Card title="Links I made" actions={<a class="link" href={href('shared')}>All</a>}><ul class="links">{open.slice(0, 5).map((one) => <li key={one.accessor}><span class="cell"><Icon name="link" /><span class="grow">{visible(one.note)}</span><span class="dim">ends {ago(one.ends)}</span></span></li>)}</ul></Card>;
}

function Operators() {
  const mayAutopilot = can('autopilot');
  const mayAudit = can('audit');
  const state = useLoad(mayAutopilot ? async () => (await call<Record<string, any>>('GET', 'sys/storage/raft/autopilot/state', { quiet: true })).data : undefined, [mayAutopilot]);
  const devices = useLoad(mayAudit ? async () => Object.keys((await call<Record<string, any>>('GET', 'sys/audit', { quiet: true })).data) : undefined, [mayAudit]);
  if (!mayAutopilot && !mayAudit) return null;
  return (
    <Card title="The server" actions={mayAutopilot ? <a class="link" href={href('cluster')}>Cluster</a> : undefined} pad>
      {devices.data?.length === 0 && <Note kind="warn" action={<LinkButton href={href('audit')}>Enable one</LinkButton>}><b>No audit device.</b> Nobody can say later who read what.</Note>}
      <dl class="kv">{state.data && <><dt>Cluster</dt><dd><Tag kind={state.data['healthy'] ? 'ok' : 'bad'} icon={state.data['healthy'] ? 'check' : 'warn'}>{state.data['healthy'] ? 'healthy' : 'not healthy'}</Tag></dd><dt>Failure tolerance</dt><dd>{state.data['failure_tolerance']}</dd></>}{state.error ? <><dt>Cluster</dt><dd class="dim">in memory, or alone: no cluster with this storage</dd></> : null}{devices.data && devices.data.length > 0 && <><dt>Audit devices</dt><dd>{devices.data.map((name) => <Tag kind="ok">{name}</Tag>)}</dd></>}</dl>
    </Card>
  );
}

export function Home() {
  const current = me.value;
  if (!current) return null;
  const left = secondsLeft(Date.now());
  const isFirst = (recent.value ?? []).length === 0 && (pinned.value ?? []).length === 0;
  return (
    <Page title={`Hello, ${visible(current.name)}`} sub={left === undefined ? 'This session does not end by itself.' : `${left < 120 ? span(left) : span(Math.round(left / 60) * 60)} left in this session.`}>
      {isFirst && <Card><Empty icon="key" title="Three ways to begin" action={<><LinkButton kind="primary" href={href('s/')} icon="key">Browse secrets</LinkButton><LinkButton href={href('find')} icon="search">Find one by its name</LinkButton><LinkButton href={href('shared')} icon="link">Share a text once</LinkButton></>}>Press <kbd>Ctrl</kbd> <kbd>K</kbd> anywhere to search, <kbd>?</kbd> for all keys.</Empty></Card>}
      <div class="cards">
        <Places title="Pinned" icon="star" list={pinned.value ?? []} />
        <Places title="Recent" icon="clock" list={recent.value ?? []} />
        <Due />
        <Shares />
        <Operators />
        <Card title="My session" pad><dl class="kv"><dt>Name</dt><dd>{visible(current.name)}</dd>{current.path && <><dt>Signed in by</dt><dd class="mono">{current.path}</dd></>}<dt>Policies</dt><dd class="caps">{current.policies.map((name) => (can('policies') ? <a class="tag" href={href(`policies/${name}`)}>{name}</a> : <Tag>{name}</Tag>))}</dd><dt>Namespace</dt><dd class="mono">{namespace.value || 'root'}</dd></dl><p class="dim">{plural(current.policies.length, 'policy', 'policies')} decide what you see here.</p></Card>
      </div>
    </Page>
  );
}
