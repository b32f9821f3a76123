// The table of servers: state, lag, disk and version of each, and promoting, demoting and removing it.
import * as common from '../../en/common.ts';
import * as en from '../../en/screens/cluster.ts';
import { ago, bytes, count, span, visible } from '../../lib/time.ts';
import { Button } from '../../parts/ui.tsx';
import { isWeak, type ClusterState, type Member } from './state.ts';

/** A row a server, with what may be done about it. */
export function Members({
  state,
  send,
  remove,
}: {
  state: ClusterState;
  send: (path: string, body: object, done: string) => Promise<unknown>;
  remove: (one: Member) => Promise<void>;
}) {
  const hasTls = state.members.some((one) => one.tls);
  return (
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
                        void send(
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
                        void send(
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
  );
}
