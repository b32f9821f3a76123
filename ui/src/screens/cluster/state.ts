// What is known of the cluster: every member's state, from the richest source that the caller may read.
import { call, tryCall } from '../../lib/api.ts';

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

export interface ClusterState {
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

/** Every member over the peers' wire (contract E11); without that what autopilot and the configuration say. */
export async function ask(): Promise<ClusterState> {
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
export const BEHIND = 100;
export const isWeak = (one: Member): boolean =>
  !one.healthy ||
  (one.alerts?.length ?? 0) > 0 ||
  (one.behind ?? 0) > BEHIND ||
  (one.rtt ?? 0) > SLOW_MS;

/** What the server tells of a member beyond what its heading says. */
export const told = (one: Member): string =>
  (one.alerts ?? [])
    .filter((text) => text !== 'does not answer' && text !== 'is sealed')
    .map((text) => `${text[0]?.toUpperCase()}${text.slice(1)}. `)
    .join('');
