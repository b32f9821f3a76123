// The cluster: who leads, who follows and how far behind, how many may fail; and what to do about it.
import { useEffect, useState } from 'preact/hooks';
import { call, tryCall } from '../lib/api.ts';
import { copy } from '../lib/clipboard.ts';
import { useAction, useLoad } from '../lib/load.ts';
import { server } from '../lib/state.ts';
import { ago, bytes, count, plural, span, visible } from '../lib/time.ts';
import { toast } from '../lib/toasts.ts';
import { confirm, open, Sheet } from '../parts/dialog.tsx';
import { Icon } from '../parts/icons.tsx';
import { Button, Card, Code, Empty, Failed, Field, FormError, LinkButton, Loading, Note, Page, Select, Tag } from '../parts/ui.tsx';
import { href } from '../lib/router.ts';

export interface Member { id: string; address: string; role: 'leader' | 'voter' | 'learner'; healthy: boolean; sealed?: boolean; version?: string; uptime?: number; applied?: number; behind?: number; rtt?: number; disk?: { free: number; total: number; sync_ms?: number }; memory?: number; tls?: string; alerts?: string[] }
interface State { members: Member[]; tolerance: number; healthy: boolean; term?: number; index?: number; events: { time: string; text: string; kind?: string }[]; isFull: boolean; leader: string }
const POLL_MS = 5000;

/** Every member over the peers' wire (contract E11); without that what autopilot and the configuration say. */
async function ask(): Promise<State> {
  const full = await tryCall<Record<string, any>>('GET', 'sys/kallisto/cluster');
  if (full) {
    const raw = (full.data['members'] ?? full.data['servers'] ?? []) as Record<string, any>[];
    const members = raw.map((one): Member => ({ id: one['id'], address: one['address'] ?? '', role: one['role'] === 'leader' ? 'leader' : one['role'] === 'learner' || one['role'] === 'nonvoter' || one['role'] === 'non-voter' ? 'learner' : 'voter', healthy: Boolean(one['healthy']), sealed: one['sealed'], version: one['version'], uptime: one['uptime'] ?? one['uptime_secs'], applied: one['applied'], behind: one['behind'], rtt: one['round_trip_ms'] ?? undefined, disk: one['disk'] ?? undefined, memory: one['memory'], tls: one['tls_expires'], alerts: one['alerts'] })).sort((a, b) => a.id.localeCompare(b.id, 'en', { numeric: true }));
    const voters = members.filter((one) => one.role !== 'learner');
    const well = voters.filter((one) => one.healthy).length;
    return { members, tolerance: full.data['failure_tolerance'] ?? Math.max(0, well - Math.floor(voters.length / 2) - 1), healthy: full.data['healthy'] ?? members.every((one) => one.healthy), term: full.data['term'] ?? members.find((one) => one.role === 'leader')?.applied, index: full.data['applied'], events: ((full.data['events'] ?? []) as Record<string, any>[]).map((one) => ({ time: one['time'], text: one['text'] ?? one['message'] ?? one['kind'], kind: one['level'] ?? one['kind'] })), isFull: true, leader: members.find((one) => one.role === 'leader')?.id ?? '' };
  }
  const { data } = await call<Record<string, any>>('GET', 'sys/storage/raft/autopilot/state', { quiet: true });
  const servers = Object.values((data['servers'] ?? {}) as Record<string, Record<string, any>>);
  const leader = servers.find((one) => one['id'] === data['leader'] || one['status'] === 'leader');
  const members = servers.map((one): Member => ({ id: one['id'], address: one['address'] ?? '', role: one === leader ? 'leader' : one['node_type'] === 'voter' || one['status'] === 'voter' ? 'voter' : 'learner', healthy: Boolean(one['healthy']), version: one['version'], applied: one['last_index'], behind: Math.max(0, Number(leader?.['last_index'] ?? 0) - Number(one['last_index'] ?? 0)) }));
  return { members, tolerance: data['failure_tolerance'] ?? 0, healthy: Boolean(data['healthy']), term: leader?.['last_term'], index: leader?.['last_index'], events: [], isFull: false, leader: leader?.['id'] ?? '' };
}

const SLOW_MS = 50;
const BEHIND = 100;
const isWeak = (one: Member): boolean => !one.healthy || (one.alerts?.length ?? 0) > 0 || (one.behind ?? 0) > BEHIND || (one.rtt ?? 0) > SLOW_MS;

/** What the server tells of a member beyond what its heading says. */
const told = (one: Member): string => (one.alerts ?? []).filter((text) => text !== 'does not answer' && text !== 'is sealed').map((text) => `${text[0]?.toUpperCase()}${text.slice(1)}. `).join('');

function Map({ state }: { state: State }) {
  const leader = state.members.find((one) => one.role === 'leader');
  const others = state.members.filter((one) => one !== leader);
  const width = Math.max(440, others.length * 148);
  const at = (i: number): number => (width / (others.length || 1)) * (i + 0.5);
  const cut = (text: string): string => (text.length > 17 ? `${text.slice(0, 16)}…` : text);
  return (
    <svg class="topo" viewBox={`0 0 ${width} 250`} role="img" aria-label={`${leader ? `${leader.id} leads` : 'No leader'}; ${others.map((one) => `${one.id}: ${one.role}, ${one.behind ?? 0} entries behind`).join('; ')}`}>
      {others.map((one, i) => <g key={one.id}><path class={`link-line ${isWeak(one) ? 'slow' : ''}`} d={`M${width / 2} 78L${at(i)} 178`} />{one.rtt !== undefined && <><rect class="lbl" x={(width / 2 + at(i)) / 2 - 26} y="118" width="52" height="20" /><text class={`t2 ${isWeak(one) ? 'w' : ''}`} x={(width / 2 + at(i)) / 2} y="132" text-anchor="middle">{one.rtt.toFixed(1)} ms</text></>}</g>)}
      {leader ? <g><rect class="node lead" x={width / 2 - 100} y="8" width="200" height="70" rx="8" /><text class="t1" x={width / 2 - 86} y="32">{cut(leader.id)}</text><text class="t2" x={width / 2 - 86} y="50">leader</text><text class="t2" x={width / 2 - 86} y="67">{state.term !== undefined ? `term ${count(state.term)}` : ''}{leader.applied !== undefined ? ` · applied ${count(leader.applied)}` : ''}</text></g> : <g><rect class="node learn slowb" x={width / 2 - 100} y="8" width="200" height="70" rx="8" /><text class="t1 w" x={width / 2} y="48" text-anchor="middle">no leader</text></g>}
      {others.map((one, i) => <g key={one.id}><rect class={`node ${one.role === 'learner' ? 'learn' : ''} ${isWeak(one) ? 'slowb' : ''}`} x={at(i) - 68} y="178" width="136" height="64" rx="8" /><text class="t1" x={at(i) - 56} y="200">{cut(one.id)}</text><text class="t2" x={at(i) - 56} y="217">{one.role}</text><text class={`t2 ${isWeak(one) ? 'w' : ''}`} x={at(i) - 56} y="233">{one.healthy ? `${count(one.behind ?? 0)} behind` : 'no answer'}</text></g>)}
    </svg>
  );
}

function JoinToken({ close }: { close: () => void }) {
  const [made, setMade] = useState<Record<string, any> | undefined>(undefined);
  const [role, setRole] = useState<'voter' | 'learner'>('voter');
  const run = useAction(async () => { setMade((await call<Record<string, any>>('POST', 'sys/storage/raft/bootstrap/token', { body: {} })).data); });
  const text = String(made?.['token'] ?? made?.['join_token'] ?? '');
  return <form onSubmit={(event) => { event.preventDefault(); void run.run(); }}><Sheet title="Add a server" actions={<><Button onClick={close}>Close</Button>{!made && <Button kind="primary" type="submit" busy={run.busy}>Make a join token</Button>}</>}>
    {made ? <><p class="soft">Good once, for a short while. On the new server, whose configuration names its own address:</p><Code text={`kallisto operator raft join${role === 'learner' ? ' -non-voter' : ''} -join-token=${text} ${location.origin}`} /><div class="row"><Button icon="copy" onClick={() => void copy(text, 'Join token')}>Copy the token alone</Button></div></> : <><p class="soft">A server joins with a token that is good once. A learner takes part in no vote until it is promoted.</p><Select label="As" value={role} options={[['voter', 'voter'], ['learner', 'learner (no vote)']]} onChange={setRole} /></>}
    <FormError error={run.error} /></Sheet></form>;
}

export function Cluster() {
  const loaded = useLoad(ask, []);
  const seal = server.value;
  useEffect(() => { const timer = setInterval(() => { if (!document.hidden) loaded.reload(); }, POLL_MS); return () => clearInterval(timer); }, []);
  const run = useAction(async (path: string, body: object, done: string) => { await call('POST', path, { body }); toast(done); loaded.reload(); });
  const state = loaded.data;
  if (loaded.error && !state) {
    const error = loaded.error as { status?: number; message?: string };
    if (/unsupported path/.test(error.message ?? '')) return <Page title="Cluster"><Card><Empty icon="nodes" title="No cluster with this storage" command="kallisto server -config=/etc/kallisto/server.hcl">This server keeps its data in memory or by itself. With <span class="mono">storage "raft"</span> three servers go on when one of them fails.</Empty></Card></Page>;
    return <Failed error={loaded.error} retry={loaded.reload} path="sys/storage/raft/autopilot/state" cap="read" />;
  }
  if (!state) return <Page title="Cluster"><Loading rows={8} /></Page>;
  const voters = state.members.filter((one) => one.role !== 'learner');
  const weak = state.members.filter(isWeak);
  const remove = async (one: Member): Promise<void> => {
    const left = voters.length - (one.role === 'learner' ? 0 : 1);
    if (await confirm({ title: `Remove ${one.id}?`, text: `${plural(left, 'voter')} ${left === 1 ? 'is' : 'are'} left, a majority is ${Math.floor(left / 2) + 1}: ${left < 3 ? 'none may fail then.' : `${plural(left - Math.floor(left / 2) - 1, 'server')} may fail then.`} It cannot come back but by joining anew, with an empty disk.`, action: 'Remove', danger: true, typed: one.id })) await run.run('sys/storage/raft/remove-peer', { server_id: one.id }, `${one.id} is removed`);
  };
  const stepDown = async (): Promise<void> => { if (await confirm({ title: 'Have the leader step down?', text: 'Another server leads within a second or so. Requests wait that long; none is lost.', action: 'Step down' })) await run.run('sys/step-down', {}, 'Another server takes over'); };
  const hasTls = state.members.some((one) => one.tls);
  const learners = state.members.length - voters.length;
  return (
    <Page title="Cluster" sub={`${plural(voters.length, 'voter')}${learners ? ` and ${plural(learners, 'learner')}` : ''} · ${state.tolerance === 0 ? 'none may fail now' : `${plural(state.tolerance, 'server')} may fail`}`}
      actions={<><LinkButton href={href('snapshots')} icon="dl">Save a snapshot</LinkButton><Button icon="plus" need={{ path: 'sys/storage/raft/bootstrap/token', cap: ['update', 'create'] }} onClick={() => void open<void>((close) => <JoinToken close={() => close()} />)}>Add a server</Button><Button icon="swap" need={{ path: 'sys/step-down', cap: 'sudo' }} busy={run.busy} onClick={() => void stepDown()}>Step down</Button></>}>
      {!state.leader && <Note kind="bad"><b>No leader.</b> A majority of {Math.floor(voters.length / 2) + 1} of {voters.length} voters has to reach each other. Reads that may be old are still answered.</Note>}
      {weak.map((one) => <Note kind="warn" key={one.id}><b>{one.id} {!one.healthy ? 'does not answer' : one.sealed ? 'is sealed' : (one.behind ?? 0) > BEHIND ? 'is falling behind' : 'needs a look'}.</b> {one.behind ? `${count(one.behind)} entries behind. ` : ''}{told(one)} {state.tolerance === 0 ? 'If another voter fails, writes wait.' : ''}</Note>)}
      <FormError error={run.error} />
      <div class="kpis">
        <Card class="kpi"><h2>Servers</h2><div class="big num">{state.members.length}</div><p>{plural(voters.length, 'voter')}{learners ? `, ${plural(learners, 'learner')}` : ''}</p></Card>
        <Card class={`kpi ${state.tolerance === 0 ? 'alert' : ''}`}><h2>Failure tolerance</h2><div class="big num">{state.tolerance} <small>of {voters.length} voters</small></div><p>{voters.length < 3 ? 'three voters tolerate one failure' : `majority of ${Math.floor(voters.length / 2) + 1}`}</p></Card>
        <Card class="kpi"><h2>Health</h2><div class="big">{weak.length === 0 ? 'healthy' : <>{weak.length} <small>degraded</small></>}</div><p>asked {ago(Date.now())}</p></Card>
        <Card class="kpi"><h2>Applied index</h2><div class="big num">{state.index !== undefined ? count(state.index) : state.members[0]?.applied !== undefined ? count(state.members[0].applied) : '–'}</div><p>{state.term !== undefined ? `term ${count(state.term)}` : ''}</p></Card>
        <Card class={`kpi ${weak.some((one) => (one.behind ?? 0) > BEHIND) ? 'alert' : ''}`}><h2>Replication lag</h2><div class="big num">{count(Math.max(0, ...state.members.map((one) => one.behind ?? 0)))} <small>entries</small></div><p>of the server furthest behind</p></Card>
      </div>
      <div class="map">
        <Card title="Topology" actions={<span class="dim"><span class="dot" /> live</span>}><Map state={state} /></Card>
        <Card title="Events">{state.events.length === 0 ? <p class="pad soft">{state.isFull ? 'Nothing happened since this server started.' : 'Events need the right to sys/kallisto/cluster.'}</p> : <ul class="feed">{state.events.slice(0, 8).map((one) => <li class={/warn|alert/.test(one.kind ?? '') ? 'w' : ''}><Icon name={/warn|alert/.test(one.kind ?? '') ? 'warn' : 'swap'} /><span>{visible(one.text)}</span><time>{ago(one.time)}</time></li>)}</ul>}</Card>
        <Card title="Seal and keys" pad><dl class="kv"><dt>Seal</dt><dd>{seal.type ?? '–'}{seal.threshold ? `, ${seal.threshold} of ${seal.shares}` : ''}</dd><dt>This server</dt><dd><Tag kind={seal.sealed ? 'bad' : 'ok'} icon={seal.sealed ? 'lock' : 'check'}>{seal.sealed ? 'sealed' : 'unsealed'}</Tag></dd>{state.isFull && <><dt>Unsealed</dt><dd>{state.members.filter((one) => one.sealed === false).length} of {state.members.length} servers</dd></>}<dt>Cluster</dt><dd>{seal.name}</dd><dt>Version</dt><dd>{seal.version}</dd></dl></Card>
      </div>
      <Card title="Servers" actions={weak.length ? <Tag kind="warn">{weak.length} degraded</Tag> : <Tag kind="ok">all well</Tag>}><div class="scroll-x" tabIndex={0} role="region" aria-label="Servers"><table class="grid nodes"><thead><tr><th>Server</th><th>Address</th><th>State</th><th class="right">Lag</th>{state.isFull && <><th class="right">Answers in</th><th>Disk</th><th class="right">Memory</th><th class="right">Up</th></>}<th>Version</th>{hasTls && <th>TLS ends</th>}<th><span class="sr">Actions</span></th></tr></thead><tbody>{state.members.map((one) => <tr key={one.id}><td><b>{visible(one.id)}</b></td><td class="mono dim">{one.address}</td><td class="nowrap"><span class={`dot ${one.healthy ? (isWeak(one) ? 'warn' : '') : 'bad'}`} /> {one.role}{one.healthy ? '' : ', no answer'}{one.sealed ? ', sealed' : ''}</td><td class="right num">{one.role === 'leader' ? '–' : count(one.behind ?? 0)}</td>{state.isFull && <><td class="right num nowrap">{one.rtt !== undefined ? `${one.rtt.toFixed(1)} ms` : '–'}</td><td class="nowrap">{one.disk?.total ? <><span class="meter"><i class={1 - one.disk.free / one.disk.total > 0.85 ? 'hot' : ''} style={{ width: `${Math.round((1 - one.disk.free / one.disk.total) * 100)}%` }} /></span>{Math.round((1 - one.disk.free / one.disk.total) * 100)} %</> : '–'}</td><td class="right nowrap">{one.memory ? bytes(one.memory) : '–'}</td><td class="right nowrap">{one.uptime ? span(one.uptime) : '–'}</td></>}<td>{one.version ?? ''}</td>{hasTls && <td>{one.tls ? ago(one.tls) : '–'}</td>}<td class="right"><span class="cell-acts">{one.role === 'learner' && <Button size="sm" need={{ path: 'sys/storage/raft/promote', cap: ['update', 'create'] }} onClick={() => void run.run('sys/storage/raft/promote', { server_id: one.id }, `${one.id} votes`)}>Promote</Button>}{one.role === 'voter' && <Button size="sm" need={{ path: 'sys/storage/raft/demote', cap: ['update', 'create'] }} onClick={() => void run.run('sys/storage/raft/demote', { server_id: one.id }, `${one.id} votes no more`)}>Demote</Button>}{one.role !== 'leader' && <Button size="sm" kind="ghost" icon="trash" label={`Remove ${one.id}`} need={{ path: 'sys/storage/raft/remove-peer', cap: ['update', 'create'] }} onClick={() => void remove(one)} />}</span></td></tr>)}</tbody></table></div></Card>
      <Autopilot />
    </Page>
  );
}

function Autopilot() {
  const loaded = useLoad(async () => (await call<Record<string, any>>('GET', 'sys/storage/raft/autopilot/configuration', { quiet: true })).data, []);
  const [edit, setEdit] = useState<Record<string, string>>({});
  const run = useAction(async () => { await call('POST', 'sys/storage/raft/autopilot/configuration', { body: edit }); toast('Autopilot changed'); setEdit({}); loaded.reload(); });
  if (!loaded.data) return null;
  return <Card title="Autopilot" pad><form class="stack" onSubmit={(event) => { event.preventDefault(); void run.run(); }}><div class="filters">{Object.entries(loaded.data).map(([key, value]) => <Field key={key} label={key.replaceAll('_', ' ')} value={edit[key] ?? String(value)} onInput={(text) => setEdit({ ...edit, [key]: text })} mono />)}</div><FormError error={run.error} /><div class="row end"><Button type="submit" busy={run.busy} disabled={Object.keys(edit).length === 0} need={{ path: 'sys/storage/raft/autopilot/configuration', cap: ['update', 'create'] }} onClick={() => {}}>Save</Button></div></form></Card>;
}
