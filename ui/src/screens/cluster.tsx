// The cluster: who leads, who follows and how far behind, how many may fail; and what to do about it.
import * as common from '../en/common.ts';
import * as en from '../en/screens/cluster.ts';
import { useEffect, useState } from 'preact/hooks';
import { call, tryCall } from '../lib/api.ts';
import { copy } from '../lib/clipboard.ts';
import { useAction, useLoad } from '../lib/load.ts';
import { server } from '../lib/state.ts';
import { ago, bytes, count, exact, plural, span, visible } from '../lib/time.ts';
import { toast } from '../lib/toasts.ts';
import { confirm, open, Sheet } from '../parts/dialog.tsx';
import { Icon } from '../parts/icons.tsx';
import { Form } from '../parts/form.tsx';
import {
  Button,
  Card,
  Code,
  Empty,
  Failed,
  Field,
  FormError,
  LinkButton,
  Loading,
  Note,
  Page,
  Select,
  Tag,
} from '../parts/ui.tsx';
import { href } from '../lib/router.ts';

export interface Member {
  id: string;
  address: string;
  role: 'leader' | 'voter' | 'learner';
  healthy: boolean;
  sealed?: boolean;
  version?: string;
  uptime?: number;
  applied?: number;
  behind?: number;
  rtt?: number;
  disk?: { free: number; total: number; sync_ms?: number };
  memory?: number;
  tls?: string;
  alerts?: string[];
}
interface State {
  members: Member[];
  tolerance: number;
  healthy: boolean;
  term?: number;
  index?: number;
  events: { time: string; text: string; kind?: string }[];
  isFull: boolean;
  leader: string;
  /** When it was asked. */
  at: number;
}
const POLL_MS = 5000;

/** Every member over the peers' wire (contract E11); without that what autopilot and the configuration say. */
async function ask(): Promise<State> {
  const full = await tryCall<Record<string, any>>('GET', 'sys/kallisto/cluster');
  if (full) {
    const raw = (full.data['members'] ?? full.data['servers'] ?? []) as Record<string, any>[];
    const members = raw
      .map((one): Member => ({
        id: one['id'],
        address: one['address'] ?? '',
        role:
          one['role'] === 'leader'
            ? 'leader'
            : one['role'] === 'learner' || one['role'] === 'nonvoter' || one['role'] === 'non-voter'
              ? 'learner'
              : 'voter',
        healthy: Boolean(one['healthy']),
        sealed: one['sealed'],
        version: one['version'],
        uptime: one['uptime'] ?? one['uptime_secs'],
        applied: one['applied'],
        behind: one['behind'],
        rtt: one['round_trip_ms'] ?? undefined,
        disk: one['disk'] ?? undefined,
        memory: one['memory'],
        tls: one['tls_expires'],
        alerts: one['alerts'],
      }))
      .sort((a, b) => a.id.localeCompare(b.id, 'en', { numeric: true }));
    const voters = members.filter((one) => one.role !== 'learner');
    const well = voters.filter((one) => one.healthy).length;
    return {
      members,
      tolerance:
        full.data['failure_tolerance'] ?? Math.max(0, well - Math.floor(voters.length / 2) - 1),
      healthy: full.data['healthy'] ?? members.every((one) => one.healthy),
      term: full.data['term'] ?? members.find((one) => one.role === 'leader')?.applied,
      index: full.data['applied'],
      events: ((full.data['events'] ?? []) as Record<string, any>[]).map((one) => ({
        time: one['time'],
        text: one['text'] ?? one['message'] ?? one['kind'],
        kind: one['level'] ?? one['kind'],
      })),
      isFull: true,
      leader: members.find((one) => one.role === 'leader')?.id ?? '',
      at: Date.now(),
    };
  }
  const { data } = await call<Record<string, any>>('GET', 'sys/storage/raft/autopilot/state', {
    quiet: true,
  });
  const servers = Object.values((data['servers'] ?? {}) as Record<string, Record<string, any>>);
  const leader = servers.find((one) => one['id'] === data['leader'] || one['status'] === 'leader');
  const members = servers.map((one): Member => ({
    id: one['id'],
    address: one['address'] ?? '',
    role:
      one === leader
        ? 'leader'
        : one['node_type'] === 'voter' || one['status'] === 'voter'
          ? 'voter'
          : 'learner',
    healthy: Boolean(one['healthy']),
    version: one['version'],
    applied: one['last_index'],
    behind: Math.max(0, Number(leader?.['last_index'] ?? 0) - Number(one['last_index'] ?? 0)),
  }));
  return {
    members,
    tolerance: data['failure_tolerance'] ?? 0,
    healthy: Boolean(data['healthy']),
    term: leader?.['last_term'],
    index: leader?.['last_index'],
    events: [],
    isFull: false,
    leader: leader?.['id'] ?? '',
    at: Date.now(),
  };
}

const SLOW_MS = 50;
const BEHIND = 100;
const isWeak = (one: Member): boolean =>
  !one.healthy ||
  (one.alerts?.length ?? 0) > 0 ||
  (one.behind ?? 0) > BEHIND ||
  (one.rtt ?? 0) > SLOW_MS;

/** What the server tells of a member beyond what its heading says. */
const told = (one: Member): string =>
  (one.alerts ?? [])
    .filter((text) => text !== 'does not answer' && text !== 'is sealed')
    .map((text) => `${text[0]?.toUpperCase()}${text.slice(1)}. `)
    .join('');

function Map({ state }: { state: State }) {
  const leader = state.members.find((one) => one.role === 'leader');
  const others = state.members.filter((one) => one !== leader);
  const width = Math.max(440, others.length * 148);
  const at = (i: number): number => (width / (others.length || 1)) * (i + 0.5);
  const cut = (text: string): string => (text.length > 17 ? `${text.slice(0, 16)}…` : text);
  return (
    <svg
      class="topo"
      viewBox={`0 0 ${width} 250`}
      role="img"
      aria-label={`${leader ? en.leads(leader.id) : en.noLeader}; ${others.map((one) => en.entriesBehind(one.id, one.role, one.behind ?? 0)).join('; ')}`}
    >
      {others.map((one, i) => (
        <g key={one.id}>
          <path
            class={`link-line ${isWeak(one) ? 'slow' : ''}`}
            d={`M${width / 2} 78L${at(i)} 178`}
          />
          {one.rtt !== undefined && (
            <>
              <rect class="lbl" x={(width / 2 + at(i)) / 2 - 26} y="118" width="52" height="20" />
              <text
                class={`t2 ${isWeak(one) ? 'w' : ''}`}
                x={(width / 2 + at(i)) / 2}
                y="132"
                text-anchor="middle"
              >
                {en.ms(one.rtt.toFixed(1))}
              </text>
            </>
          )}
        </g>
      ))}
      {leader ? (
        <g>
          <rect class="node lead" x={width / 2 - 100} y="8" width="200" height="70" rx="8" />
          <text class="t1" x={width / 2 - 86} y="32">
            {cut(leader.id)}
          </text>
          <text class="t2" x={width / 2 - 86} y="50">
            {en.leader}
          </text>
          <text class="t2" x={width / 2 - 86} y="67">
            {state.term !== undefined ? en.term(count(state.term)) : ''}
            {leader.applied !== undefined ? en.applied(count(leader.applied)) : ''}
          </text>
        </g>
      ) : (
        <g>
          <rect class="node learn slowb" x={width / 2 - 100} y="8" width="200" height="70" rx="8" />
          <text class="t1 w" x={width / 2} y="48" text-anchor="middle">
            {en.noLeader2}
          </text>
        </g>
      )}
      {others.map((one, i) => (
        <g key={one.id}>
          <rect
            class={`node ${one.role === 'learner' ? 'learn' : ''} ${isWeak(one) ? 'slowb' : ''}`}
            x={at(i) - 68}
            y="178"
            width="136"
            height="64"
            rx="8"
          />
          <text class="t1" x={at(i) - 56} y="200">
            {cut(one.id)}
          </text>
          <text class="t2" x={at(i) - 56} y="217">
            {one.role}
          </text>
          <text class={`t2 ${isWeak(one) ? 'w' : ''}`} x={at(i) - 56} y="233">
            {one.healthy ? en.behind(count(one.behind ?? 0)) : en.noAnswer}
          </text>
        </g>
      ))}
    </svg>
  );
}

function JoinToken({ close }: { close: () => void }) {
  const [made, setMade] = useState<Record<string, any> | undefined>(undefined);
  const [role, setRole] = useState<'voter' | 'learner'>('voter');
  const run = useAction(async () => {
    setMade(
      (await call<Record<string, any>>('POST', 'sys/storage/raft/bootstrap/token', { body: {} }))
        .data,
    );
  });
  const text = String(made?.['token'] ?? made?.['join_token'] ?? '');
  return (
    <Form name="cluster/join-token" onSubmit={() => run.run()}>
      <Sheet
        title={en.addAServer}
        actions={
          <>
            <Button onClick={close}>{common.close}</Button>
            {!made && (
              <Button kind="primary" type="submit" busy={run.busy}>
                {en.makeAJoinToken}
              </Button>
            )}
          </>
        }
      >
        {made ? (
          <>
            <p class="soft">{en.goodOnceForAShortWhile}</p>
            <Code
              text={`kallisto operator raft join${role === 'learner' ? ' -non-voter' : ''} -join-token=${text} ${location.origin}`}
            />
            <div class="row">
              <Button icon="copy" onClick={() => void copy(text, en.joinToken)}>
                {en.copyTheTokenAlone}
              </Button>
            </div>
          </>
        ) : (
          <>
            <p class="soft">{en.aServerJoinsWithAToken}</p>
            <Select
              label={en.as}
              value={role}
              options={[
                ['voter', en.voter],
                ['learner', en.learnerNoVote],
              ]}
              onChange={setRole}
            />
          </>
        )}
        <FormError error={run.error} />
      </Sheet>
    </Form>
  );
}

export function Cluster() {
  const loaded = useLoad(ask, []);
  const seal = server.value;
  useEffect(() => {
    const timer = setInterval(() => {
      if (!document.hidden) loaded.reload();
    }, POLL_MS);
    return () => clearInterval(timer);
  }, []);
  const run = useAction(async (path: string, body: object, done: string) => {
    await call('POST', path, { body });
    toast(done);
    loaded.reload();
  });
  const state = loaded.data;
  if (loaded.error && !state) {
    const error = loaded.error as { status?: number; message?: string };
    if (/unsupported path/.test(error.message ?? ''))
      return (
        <Page title={common.cluster}>
          <Card>
            <Empty
              icon="nodes"
              title={en.noClusterWithThisStorage}
              command="kallisto server -config=/etc/kallisto/server.hcl"
            >
              {en.thisServerKeepsItsDataIn} <span class="mono">storage "raft"</span>{' '}
              {en.threeServersGoOnWhenOne}
            </Empty>
          </Card>
        </Page>
      );
    return (
      <Failed
        error={loaded.error}
        retry={loaded.reload}
        path="sys/storage/raft/autopilot/state"
        cap="read"
      />
    );
  }
  if (!state)
    return (
      <Page title={common.cluster}>
        <Loading rows={8} />
      </Page>
    );
  const voters = state.members.filter((one) => one.role !== 'learner');
  const weak = state.members.filter(isWeak);
  const remove = async (one: Member): Promise<void> => {
    const left = voters.length - (one.role === 'learner' ? 0 : 1);
    if (
      await confirm({
        title: en.remove(one.id),
        text: en.leftAMajorityIsItCannot(
          plural(left, en.voter),
          left === 1 ? 'is' : en.are,
          Math.floor(left / 2) + 1,
          left < 3
            ? en.noneMayFailThen
            : en.mayFailThen(plural(left - Math.floor(left / 2) - 1, en.server2)),
        ),
        action: en.remove2,
        danger: true,
        typed: one.id,
      })
    )
      await run.run('sys/storage/raft/remove-peer', { server_id: one.id }, en.isRemoved(one.id));
  };
  const stepDown = async (): Promise<void> => {
    if (
      await confirm({
        title: en.haveTheLeaderStepDown,
        text: en.anotherServerLeadsWithinASecond,
        action: en.stepDown,
      })
    )
      await run.run('sys/step-down', {}, en.anotherServerTakesOver);
  };
  const rotate = async (): Promise<void> => {
    if (
      await confirm({
        title: en.rotateTheCertificate,
        text: en.thisServerTakesANewKey,
        action: en.rotate,
      })
    )
      await run.run('sys/storage/raft/certificate/rotate', {}, en.certificateRotated);
  };
  const hasTls = state.members.some((one) => one.tls);
  const learners = state.members.length - voters.length;
  return (
    <Page
      title={common.cluster}
      sub={`${plural(voters.length, en.voter)}${learners ? en.and(plural(learners, en.learner)) : ''} · ${state.tolerance === 0 ? en.noneMayFailNow : en.mayFail(plural(state.tolerance, en.server2))}`}
      actions={
        <>
          <LinkButton href={href('snapshots')} icon="dl">
            {en.saveASnapshot}
          </LinkButton>
          <Button
            icon="plus"
            need={{ path: 'sys/storage/raft/bootstrap/token', cap: ['update', 'create'] }}
            onClick={() => void open<void>((close) => <JoinToken close={() => close()} />)}
          >
            {en.addAServer}
          </Button>
          <Button
            icon="swap"
            need={{ path: 'sys/step-down', cap: 'sudo' }}
            busy={run.busy}
            onClick={() => void stepDown()}
          >
            {en.stepDown}
          </Button>
        </>
      }
    >
      {loaded.error ? (
        <>
          <Note kind="bad">
            <b>{en.thisServerDoesNotSay}</b> {en.whatFollowsIsFrom(exact(state.at), ago(state.at))}
          </Note>
          <FormError error={loaded.error} />
        </>
      ) : null}
      {!state.leader && (
        <Note kind="bad">
          <b>{en.noLeader3}</b>{' '}
          {en.aMajorityOfOfVotersHas(Math.floor(voters.length / 2) + 1, voters.length)}
        </Note>
      )}
      {weak.map((one) => (
        <Note kind="warn" key={one.id}>
          <b>
            {one.id}{' '}
            {!one.healthy
              ? en.doesNotAnswer
              : one.sealed
                ? en.isSealed
                : (one.behind ?? 0) > BEHIND
                  ? en.isFallingBehind
                  : en.needsALook}
            .
          </b>{' '}
          {one.behind ? en.entriesBehind2(count(one.behind)) : ''}
          {told(one)} {state.tolerance === 0 ? en.ifAnotherVoterFailsWritesWait : ''}
        </Note>
      ))}
      <FormError error={run.error} />
      <div class="kpis">
        <Card class="kpi">
          <h2>{en.servers}</h2>
          <div class="big num">{state.members.length}</div>
          <p>
            {plural(voters.length, en.voter)}
            {learners ? `, ${plural(learners, en.learner)}` : ''}
          </p>
        </Card>
        <Card class={`kpi ${state.tolerance === 0 ? 'alert' : ''}`}>
          <h2>{en.failureTolerance}</h2>
          <div class="big num">
            {state.tolerance} <small>{en.ofVoters(voters.length)}</small>
          </div>
          <p>
            {voters.length < 3
              ? en.threeVotersTolerateOneFailure
              : en.majorityOf(Math.floor(voters.length / 2) + 1)}
          </p>
        </Card>
        <Card class="kpi">
          <h2>{en.health}</h2>
          <div class="big">
            {weak.length === 0 ? (
              en.healthy
            ) : (
              <>
                {weak.length} <small>{en.degraded}</small>
              </>
            )}
          </div>
          <p>{en.asked(ago(state.at))}</p>
        </Card>
        <Card class="kpi">
          <h2>{en.appliedIndex}</h2>
          <div class="big num">
            {state.index !== undefined
              ? count(state.index)
              : state.members[0]?.applied !== undefined
                ? count(state.members[0].applied)
                : '–'}
          </div>
          <p>{state.term !== undefined ? en.term(count(state.term)) : ''}</p>
        </Card>
        <Card class={`kpi ${weak.some((one) => (one.behind ?? 0) > BEHIND) ? 'alert' : ''}`}>
          <h2>{en.replicationLag}</h2>
          <div class="big num">
            {count(Math.max(0, ...state.members.map((one) => one.behind ?? 0)))}{' '}
            <small>{en.entries}</small>
          </div>
          <p>{en.ofTheServerFurthestBehind}</p>
        </Card>
      </div>
      <div class="map">
        <Card
          title={en.topology}
          actions={
            loaded.error ? (
              <Tag kind="bad" icon="warn">
                {en.old}
              </Tag>
            ) : (
              <span class="dim">
                <span class="dot" /> {en.live}
              </span>
            )
          }
        >
          <Map state={state} />
        </Card>
        <Card title={en.events}>
          {state.events.length === 0 ? (
            <p class="pad soft">
              {state.isFull ? en.nothingHappenedSinceThisServer : en.eventsNeedTheRightToSys}
            </p>
          ) : (
            <ul class="feed">
              {state.events.slice(0, 8).map((one) => (
                <li class={/warn|alert/.test(one.kind ?? '') ? 'w' : ''}>
                  <Icon name={/warn|alert/.test(one.kind ?? '') ? 'warn' : 'swap'} />
                  <span>{visible(one.text)}</span>
                  <time>{ago(one.time)}</time>
                </li>
              ))}
            </ul>
          )}
        </Card>
        <Card title={en.sealAndKeys} pad>
          <dl class="kv">
            <dt>{common.seal}</dt>
            <dd>
              {seal.type ?? '–'}
              {seal.threshold ? en.ofIt(seal.threshold, seal.shares) : ''}
            </dd>
            <dt>{en.thisServer}</dt>
            <dd>
              <Tag kind={seal.sealed ? 'bad' : 'ok'} icon={seal.sealed ? 'lock' : 'check'}>
                {seal.sealed ? en.sealed : en.unsealed}
              </Tag>
            </dd>
            {state.isFull && (
              <>
                <dt>{en.unsealed2}</dt>
                <dd>
                  {en.ofServers(
                    state.members.filter((one) => one.sealed === false).length,
                    state.members.length,
                  )}
                </dd>
              </>
            )}
            <dt>{common.cluster}</dt>
            <dd>{seal.name}</dd>
            <dt>{common.version}</dt>
            <dd>{seal.version}</dd>
          </dl>
          <div>
            <Button
              size="sm"
              icon="undo"
              need={{ path: 'sys/storage/raft/certificate/rotate', cap: ['update', 'create'] }}
              onClick={() => void rotate()}
            >
              {en.rotateCertificate}
            </Button>
          </div>
        </Card>
      </div>
      <Card
        title={en.servers}
        actions={
          loaded.error ? (
            <Tag kind="bad" icon="warn">
              {en.old}
            </Tag>
          ) : weak.length ? (
            <Tag kind="warn">{en.degraded2(weak.length)}</Tag>
          ) : (
            <Tag kind="ok">{en.allWell}</Tag>
          )
        }
      >
        <div class="scroll-x" tabIndex={0} role="region" aria-label={en.servers}>
          <table class="grid nodes">
            <thead>
              <tr>
                <th>{en.server}</th>
                <th>{en.address}</th>
                <th>{common.state}</th>
                <th class="right">{en.lag}</th>
                {state.isFull && (
                  <>
                    <th class="right">{en.answersIn}</th>
                    <th>{en.disk}</th>
                    <th class="right">{en.memory}</th>
                    <th class="right">{en.up}</th>
                  </>
                )}
                <th>{common.version}</th>
                {hasTls && <th>{en.tlsEnds}</th>}
                <th>
                  <span class="sr">{common.actions}</span>
                </th>
              </tr>
            </thead>
            <tbody>
              {state.members.map((one) => (
                <tr key={one.id}>
                  <td>
                    <b>{visible(one.id)}</b>
                  </td>
                  <td class="mono dim">{one.address}</td>
                  <td class="nowrap">
                    <span class={`dot ${one.healthy ? (isWeak(one) ? 'warn' : '') : 'bad'}`} />{' '}
                    {one.role}
                    {one.healthy ? '' : en.noAnswer2}
                    {one.sealed ? en.sealed2 : ''}
                  </td>
                  <td class="right num">{one.role === 'leader' ? '–' : count(one.behind ?? 0)}</td>
                  {state.isFull && (
                    <>
                      <td class="right num nowrap">
                        {one.rtt !== undefined ? en.ms(one.rtt.toFixed(1)) : '–'}
                      </td>
                      <td class="nowrap">
                        {one.disk?.total ? (
                          <>
                            <span class="meter">
                              <i
                                class={1 - one.disk.free / one.disk.total > 0.85 ? 'hot' : ''}
                                style={{
                                  width: `${Math.round((1 - one.disk.free / one.disk.total) * 100)}%`,
                                }}
                              />
                            </span>
                            {Math.round((1 - one.disk.free / one.disk.total) * 100)} %
                          </>
                        ) : (
                          '–'
                        )}
                      </td>
                      <td class="right nowrap">{one.memory ? bytes(one.memory) : '–'}</td>
                      <td class="right nowrap">{one.uptime ? span(one.uptime) : '–'}</td>
                    </>
                  )}
                  <td>{one.version ?? ''}</td>
                  {hasTls && <td>{one.tls ? ago(one.tls) : '–'}</td>}
                  <td class="right">
                    <span class="cell-acts">
                      {one.role === 'learner' && (
                        <Button
                          size="sm"
                          need={{ path: 'sys/storage/raft/promote', cap: ['update', 'create'] }}
                          onClick={() =>
                            void run.run(
                              'sys/storage/raft/promote',
                              { server_id: one.id },
                              en.votes(one.id),
                            )
                          }
                        >
                          {en.promote}
                        </Button>
                      )}
                      {one.role === 'voter' && (
                        <Button
                          size="sm"
                          need={{ path: 'sys/storage/raft/demote', cap: ['update', 'create'] }}
                          onClick={() =>
                            void run.run(
                              'sys/storage/raft/demote',
                              { server_id: one.id },
                              en.votesNoMore(one.id),
                            )
                          }
                        >
                          {en.demote}
                        </Button>
                      )}
                      {one.role !== 'leader' && (
                        <Button
                          size="sm"
                          kind="ghost"
                          icon="trash"
                          label={en.remove3(one.id)}
                          need={{ path: 'sys/storage/raft/remove-peer', cap: ['update', 'create'] }}
                          onClick={() => void remove(one)}
                        />
                      )}
                    </span>
                  </td>
                </tr>
              ))}
            </tbody>
          </table>
        </div>
      </Card>
      <Autopilot />
    </Page>
  );
}

function Autopilot() {
  const loaded = useLoad(
    async () =>
      (
        await call<Record<string, any>>('GET', 'sys/storage/raft/autopilot/configuration', {
          quiet: true,
        })
      ).data,
    [],
  );
  const [edit, setEdit] = useState<Record<string, string>>({});
  const run = useAction(async () => {
    await call('POST', 'sys/storage/raft/autopilot/configuration', { body: edit });
    toast(en.autopilotChanged);
    setEdit({});
    loaded.reload();
  });
  if (!loaded.data) return null;
  return (
    <Card title={en.autopilot} pad>
      <Form name="cluster/autopilot" class="stack" onSubmit={() => run.run()}>
        <div class="filters">
          {Object.entries(loaded.data).map(([key, value]) => (
            <Field
              key={key}
              label={key.replaceAll('_', ' ')}
              value={edit[key] ?? String(value)}
              onInput={(text) => setEdit({ ...edit, [key]: text })}
              mono
            />
          ))}
        </div>
        <FormError error={run.error} />
        <div class="row end">
          <Button
            type="submit"
            busy={run.busy}
            disabled={Object.keys(edit).length === 0}
            need={{ path: 'sys/storage/raft/autopilot/configuration', cap: ['update', 'create'] }}
            onClick={() => {}}
          >
            {common.save}
          </Button>
        </div>
      </Form>
    </Card>
  );
}
