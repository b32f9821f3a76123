// The topology as a picture: the leader above, the other servers below, with how far behind each is.
import * as en from '../../en/screens/cluster.ts';
import { count } from '../../lib/time.ts';
import { isWeak, type ClusterState } from './state.ts';

export function Map({ state }: { state: ClusterState }) {
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
