// The cluster: who leads, who follows and how far behind, how many may fail; and what to do about it.
import * as common from '../../en/common.ts';
import * as en from '../../en/screens/cluster.ts';
import { useEffect, useState } from 'preact/hooks';
import { call } from '../../lib/api.ts';
import { copy } from '../../lib/clipboard.ts';
import { useAction, useLoad } from '../../lib/load.ts';
import { server } from '../../lib/state.ts';
import { ago, count, exact, plural, visible } from '../../lib/time.ts';
import { toast } from '../../lib/toasts.ts';
import { confirm, open, Sheet } from '../../parts/dialog.tsx';
import { Icon } from '../../parts/icons.tsx';
import { Form } from '../../parts/form.tsx';
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
} from '../../parts/ui.tsx';
import { href } from '../../lib/router.ts';
import { Map } from './map.tsx';
import { Members } from './members.tsx';
import { ask, BEHIND, isWeak, type Member, told } from './state.ts';

const POLL_MS = 5000;

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
        <Members state={state} send={run.run} remove={remove} />
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
