// Rights, as the server says them. One question (`sys/capabilities-self`) for all rows of the table after a login and after each change of namespace;
// a screen asks once more for the paths it shows. No pattern of a policy is ever matched in the browser.
import { signal } from '@preact/signals';
import { useEffect } from 'preact/hooks';
import { tryCall } from './api.ts';
import { me, namespace, token } from './state.ts';

export type Capability = 'create' | 'read' | 'update' | 'patch' | 'delete' | 'list' | 'sudo';
export interface Need {
  path: string;
  cap: Capability | Capability[];
}

/** One row for each entry of the navigation and each action that is not about an object in view. An entry is shown when one of its rows is allowed. */
export const NEEDS = {
  policies: { path: 'sys/policies/acl', cap: 'list' },
  policyWrite: { path: 'sys/policies/acl/new', cap: ['create', 'update'] },
  explain: { path: 'sys/policies/explain', cap: 'update' },
  entities: { path: 'identity/entity/id', cap: 'list' },
  groups: { path: 'identity/group/id', cap: 'list' },
  logins: { path: 'sys/auth', cap: 'read' },
  locked: { path: 'sys/locked-users', cap: 'sudo' },
  tokens: { path: 'auth/token/accessors', cap: 'sudo' },
  tokenTree: { path: 'sys/kallisto/tokens', cap: 'sudo' },
  tokenMake: { path: 'auth/token/create', cap: ['create', 'update'] },
  review: { path: 'sys/kallisto/access/who', cap: 'sudo' },
  cluster: { path: 'sys/kallisto/cluster', cap: 'sudo' },
  raft: { path: 'sys/storage/raft/configuration', cap: 'read' },
  autopilot: { path: 'sys/storage/raft/autopilot/state', cap: 'read' },
  stepDown: { path: 'sys/step-down', cap: 'sudo' },
  raftRemove: { path: 'sys/storage/raft/remove-peer', cap: ['update', 'create'] },
  raftPromote: { path: 'sys/storage/raft/promote', cap: ['update', 'create'] },
  raftDemote: { path: 'sys/storage/raft/demote', cap: ['update', 'create'] },
  joinToken: { path: 'sys/storage/raft/bootstrap/token', cap: ['update', 'create'] },
  metrics: { path: 'sys/metrics', cap: 'read' },
  audit: { path: 'sys/audit', cap: 'read' },
  auditEnable: { path: 'sys/audit/file', cap: 'sudo' },
  snapshotTake: { path: 'sys/storage/raft/snapshot', cap: 'read' },
  snapshotRestore: { path: 'sys/storage/raft/snapshot', cap: ['update', 'create'] },
  monitor: { path: 'sys/monitor', cap: 'read' },
  mounts: { path: 'sys/mounts', cap: 'read' },
  mountMake: { path: 'sys/mounts/new', cap: ['create', 'update'] },
  quotas: { path: 'sys/quotas/rate-limit', cap: 'list' },
  seal: { path: 'sys/seal', cap: ['update', 'sudo'] },
  rotate: { path: 'sys/rotate', cap: 'sudo' },
  rekey: { path: 'sys/rekey/init', cap: 'update' },
  namespaces: { path: 'sys/namespaces', cap: 'list' },
  namespaceMake: { path: 'sys/namespaces/new', cap: ['create', 'update'] },
  cors: { path: 'sys/config/cors', cap: 'sudo' },
  uiHeaders: { path: 'sys/config/ui/headers', cap: 'sudo' },
  uiSettings: { path: 'sys/config/ui/settings', cap: 'sudo' },
  config: { path: 'sys/config/state/sanitized', cap: 'read' },
  kvList: { path: 'sys/kallisto/kv/list', cap: 'read' },
  kvSearch: { path: 'sys/kallisto/kv/search', cap: 'read' },
  kvRead: { path: 'sys/kallisto/kv/read', cap: ['update', 'create'] },
  kvWrite: { path: 'sys/kallisto/kv/write', cap: ['update', 'create'] },
  kvDelete: { path: 'sys/kallisto/kv/delete', cap: ['update', 'create'] },
  kvMove: { path: 'sys/kallisto/kv/move', cap: ['update', 'create'] },
  kvCopy: { path: 'sys/kallisto/kv/copy', cap: ['update', 'create'] },
  kvWatch: { path: 'sys/kallisto/kv/watch', cap: 'read' },
  wrap: { path: 'sys/wrapping/wrap', cap: ['update', 'create'] },
  random: { path: 'sys/tools/random', cap: ['update', 'create'] },
  hash: { path: 'sys/tools/hash', cap: ['update', 'create'] },
} satisfies Record<string, Need>;

export type NeedName = keyof typeof NEEDS;

/** Capabilities by namespace and path, as the server said them. */
const known = signal<ReadonlyMap<string, readonly string[]>>(new Map());
const asked = new Set<string>();
const QUESTION_MAX = 1000;
const key = (path: string): string => `${namespace.value}\n${path}`;

let owner = '';
/** Asks all anew: another token, or its rights changed. For the same person what was known holds until the answer is there, so that no screen loses what was typed into it. */
export function forgetNeeds(): void {
  asked.clear();
  const now = me.peek()?.name ?? '';
  if (now === owner) return;
  owner = now;
  known.value = new Map();
}

/** What is to be asked for once the buttons of a screen have all said what they need. */
let wanted = new Set<string>();
let asking: Promise<void> | undefined;

/** Asks for the paths that were not asked for yet; all that is wanted in one turn is one question. */
export function askNeeds(paths: string[]): Promise<void> {
  if (!token.peek()) return Promise.resolve();
  for (const path of paths)
    if (path && !asked.has(key(path))) {
      asked.add(key(path));
      wanted.add(path);
    }
  if (wanted.size === 0) return asking ?? Promise.resolve();
  return (asking ??= Promise.resolve().then(() => {
    const fresh = [...wanted];
    wanted = new Set();
    asking = undefined;
    return ask(fresh);
  }));
}

async function ask(fresh: string[]): Promise<void> {
  for (let from = 0; from < fresh.length; from += QUESTION_MAX) {
    const part = fresh.slice(from, from + QUESTION_MAX);
    const reply = await tryCall<Record<string, string[]>>('POST', 'sys/capabilities-self', {
      body: { paths: part },
    });
    const next = new Map(known.peek());
    for (const path of part)
      next.set(key(path), reply?.data[path] ?? (reply ? ['deny'] : ['unknown']));
    known.value = next;
  }
}

export const askTable = (): Promise<void> =>
  askNeeds(Object.values(NEEDS).map((need) => need.path));

/** Whether a right is there; `undefined` until the answer is. */
export function allows(need: Need): boolean | undefined {
  const capabilities = known.value.get(key(need.path));
  if (!capabilities) return undefined;
  if (capabilities.includes('root') || capabilities.includes('unknown')) return true;
  const wanted = Array.isArray(need.cap) ? need.cap : [need.cap];
  return wanted.some((cap) => capabilities.includes(cap));
}

export const can = (name: NeedName): boolean | undefined => allows(NEEDS[name]);

/** Asks for the rights of what a screen shows. */
export function useNeeds(needs: Need[]): void {
  const text = needs.map((need) => need.path).join('\n');
  const signedIn = token.value !== '';
  useEffect(() => {
    void askNeeds(text.split('\n'));
  }, [text, signedIn, namespace.value]);
}
