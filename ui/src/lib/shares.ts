// The links I made: accessor, note and times, kept in my own cubbyhole, so they end with the session.
import { call, tryCall } from './api.ts';
import { me, namespace } from './state.ts';

export interface Shared {
  accessor: string;
  note: string;
  made: number;
  ends: number;
  from: string;
  /** The namespace it was made in. */
  ns: string;
}
const AT = 'cubbyhole/ui/shared';
const own = (): string => me.peek()?.ns ?? '';

export async function sharedByMe(): Promise<Shared[]> {
  const reply = await tryCall<{ list?: string }>('GET', AT, { ns: own() });
  try {
    return JSON.parse(reply?.data.list ?? '[]') as Shared[];
  } catch {
    return [];
  }
}
export async function keepShares(list: Shared[]): Promise<void> {
  await tryCall('POST', AT, { ns: own(), body: { list: JSON.stringify(list) } });
}
export async function remember(one: Omit<Shared, 'ns'>): Promise<void> {
  await keepShares([{ ...one, ns: namespace.peek() }, ...(await sharedByMe())].slice(0, 200));
}

export type ShareState = 'waiting' | 'opened' | 'expired' | 'unknown';
/** What became of a link (contract E9); without that only its time is known. */
export async function stateOfShare(one: Shared): Promise<ShareState> {
  const reply = await tryCall<{ state?: ShareState }>('POST', 'sys/wrapping/lookup', {
    ns: one.ns,
    body: { accessor: one.accessor },
  });
  return reply?.data.state ?? (one.ends < Date.now() ? 'expired' : 'unknown');
}
/** Withdraws a link; either route of the server will do. */
export async function withdraw(one: Shared): Promise<void> {
  const asked = { ns: one.ns, body: { accessor: one.accessor } };
  if (!(await tryCall('POST', 'sys/wrapping/revoke', asked)))
    await call('POST', 'auth/token/revoke-accessor', asked);
}
