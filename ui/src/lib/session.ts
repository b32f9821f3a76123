// Who is signed in: the token, how long it lives, and how it goes.
//
// The token lives in the closure of `lib/state` and, unless it is a root token or the operator says `session = "memory"`, in `sessionStorage` of this tab:
// never in localStorage, a cookie, an address or a log. A new tab asks the living ones over a `BroadcastChannel`, which only pages of this origin in this
// browser hear; one that may keep its token answers with it. Logout revokes what the page made by a login, and all tabs follow. With the session go the
// places that it visited (`lib/prefs`).
import * as en from '../en/lib/session.ts';
import { ApiError, call, tryCall, type Auth } from './api.ts';
import { forgetPlaces, ownPlaces } from './prefs.ts';
import { cover, me, namespace, onTokenEnd, token, uiConfig, type Me } from './state.ts';

const KEY = 'kallisto.session';
const LAST_MOUNT = 'kallisto.login';
const WARN_MS = 120_000;
const channel = new BroadcastChannel('kallisto');

interface Kept {
  token: string;
  isOurs: boolean;
  mount: string;
}

export const secondsLeft = (now: number): number | undefined =>
  me.value && me.value.ends > 0 ? Math.max(0, Math.round((me.value.ends - now) / 1000)) : undefined;
export const isEnding = (now: number): boolean =>
  me.value !== undefined &&
  me.value.ends > 0 &&
  me.value.ends - now < Math.min(WARN_MS, me.value.ttl * 250);

/** Whether a session may be anywhere but in the memory of its tab: in storage, or in another tab. */
const mayBeKept = (isRoot: boolean): boolean => !isRoot && uiConfig.peek().session !== 'memory';

function keep(kept: Kept, isRoot: boolean): void {
  if (mayBeKept(isRoot)) sessionStorage.setItem(KEY, JSON.stringify(kept));
  else sessionStorage.removeItem(KEY);
}

/** Takes up the places of whoever is signed in, which may be where the session is. */
const own = ({ entityId, isRoot, ends }: Me): void =>
  ownPlaces(entityId && mayBeKept(isRoot) ? entityId : undefined, ends);

function read(): Kept | undefined {
  try {
    const kept = JSON.parse(sessionStorage.getItem(KEY) ?? 'null') as Kept | null;
    return kept && typeof kept.token === 'string' ? kept : undefined;
  } catch {
    return undefined;
  }
}

/** Takes a token for the session: looks up what it is. What the operator says of sessions is there once `told` is. */
export async function signIn(
  given: string,
  how: { isOurs: boolean; mount: string; auth?: Auth },
  told?: Promise<unknown>,
): Promise<void> {
  let made: Me;
  try {
    const { data } = await call<Record<string, any>>('GET', 'auth/token/lookup-self', {
      token: given,
      ns: '',
      quiet: true,
    });
    const policies = [
      ...new Set([...(data['policies'] ?? []), ...(data['identity_policies'] ?? [])]),
    ] as string[];
    made = {
      accessor: data['accessor'] ?? '',
      name: nameOf(data),
      policies,
      entityId: data['entity_id'] ?? '',
      path: data['path'] ?? '',
      ends: data['ttl'] > 0 ? Date.now() + data['ttl'] * 1000 : 0,
      ttl: data['ttl'] ?? 0,
      renewable: Boolean(data['renewable']),
      isRoot: policies.includes('root'),
      isOurs: how.isOurs,
      mount: how.mount,
      type: data['type'] ?? 'service',
      ns: String(data['namespace_path'] ?? '').replace(/\/$/, ''),
    };
  } catch (error) {
    if (!(error instanceof ApiError) || error.status !== 403 || !how.auth) throw error;
    // A token without the right to look at itself: what the login said has to do.
    const { auth } = how;
    made = {
      accessor: auth.accessor,
      name: Object.values(auth.metadata ?? {})[0] ?? how.mount,
      policies: auth.policies,
      entityId: auth.entity_id,
      path: '',
      ends: auth.lease_duration > 0 ? Date.now() + auth.lease_duration * 1000 : 0,
      ttl: auth.lease_duration,
      renewable: auth.renewable,
      isRoot: auth.policies.includes('root'),
      isOurs: how.isOurs,
      mount: how.mount,
      type: 'service',
      ns: namespace.peek(),
    };
  }
  await told;
  keep({ token: given, isOurs: how.isOurs, mount: how.mount }, made.isRoot);
  own(made);
  token.value = given;
  me.value = made;
  cover.value = '';
  if (how.mount) localStorage.setItem(LAST_MOUNT, how.mount);
}

/** What a login answered, after its second factor where it asks for one. */
export async function factored(auth: Auth | undefined, ns?: string): Promise<Auth> {
  const whole = auth?.mfa_requirement
    ? await (await import('../parts/second-factor.tsx')).askCodes(auth.mfa_requirement, ns)
    : auth;
  if (!whole) throw new Error(en.theServerGaveNoToken);
  return whole;
}

/** Begins the session by the answer of a login. */
export async function take(mount: string, answer: Auth | undefined): Promise<void> {
  const auth = await factored(answer);
  await signIn(auth.client_token, { isOurs: true, mount, auth });
}

function nameOf(data: Record<string, any>): string {
  const meta = (data['meta'] ?? {}) as Record<string, string>;
  const name =
    meta['username'] ??
    meta['role_name'] ??
    meta['role'] ??
    meta['cert_name'] ??
    (data['display_name'] as string | undefined) ??
    '';
  return name.replace(/^token-?$/, '') || 'token';
}

export const lastMount = (): string => localStorage.getItem(LAST_MOUNT) ?? '';

export const isKept = (): boolean => read() !== undefined;

/** The session of this tab, or of another tab that lives, after a load. */
export async function resume(told?: Promise<unknown>): Promise<boolean> {
  const kept = read() ?? (await ask());
  if (!kept) return false;
  try {
    await signIn(kept.token, kept, told);
    return true;
  } catch (error) {
    if (error instanceof ApiError && error.status === 403) {
      sessionStorage.removeItem(KEY);
      forgetPlaces();
    }
    return false;
  }
}

/** For how long after the login is shown an answer of another tab is still taken up. */
const LATE_MS = 10_000;
let lateUntil = 0;

/** Asks other tabs for their session; 150 ms are enough for one that lives and is not held up. What comes later `startSession` takes up. */
function ask(): Promise<Kept | undefined> {
  return new Promise((resolve) => {
    const done = (kept?: Kept): void => {
      lateUntil = kept ? 0 : Date.now() + LATE_MS;
      channel.removeEventListener('message', hear);
      clearTimeout(timer);
      resolve(kept);
    };
    const hear = (event: MessageEvent): void => {
      const data = event.data as { kept?: Kept };
      if (data.kept) done(data.kept);
    };
    const timer = setTimeout(() => done(), 150);
    channel.addEventListener('message', hear);
    channel.postMessage({ asks: true });
  });
}

/** Adds the time of a renewal to the session. */
export async function renew(): Promise<void> {
  const { auth } = await call('POST', 'auth/token/renew-self', { body: {}, ns: '' });
  const current = me.peek();
  if (!auth || !current) return;
  const longer: Me = {
    ...current,
    ttl: auth.lease_duration,
    ends: auth.lease_duration > 0 ? Date.now() + auth.lease_duration * 1000 : 0,
  };
  own(longer);
  me.value = longer;
}

/** Forgets all that this browser has of the session; a login that was begun and left is in the tab's storage too. */
function forget(): void {
  sessionStorage.clear();
  forgetPlaces();
  token.value = '';
  me.value = undefined;
}

/** Ends the session here and in all tabs; `revoke` ends the token too. */
export async function signOut(revoke: boolean): Promise<void> {
  if (revoke) await tryCall('POST', 'auth/token/revoke-self', { body: {}, ns: '' });
  channel.postMessage({ out: true });
  forget();
}

/** Covers the screen until somebody signs in again; what is open behind it stays. */
export function end(why: 'ended' | 'locked'): void {
  if (!token.peek()) return;
  sessionStorage.removeItem(KEY);
  if (why === 'ended') forgetPlaces();
  token.value = '';
  cover.value = why;
}

let lastInput = Date.now();

/** Starts what watches the session: other tabs, its end, and idleness. `onLate` is called once a session was taken up behind the login. */
export function startSession(onOut: () => void, onLate: () => void): void {
  onTokenEnd.value = () => end('ended');
  channel.addEventListener('message', (event) => {
    const data = event.data as { asks?: boolean; out?: boolean; kept?: Kept };
    const current = me.peek();
    if (data.asks && token.peek() && current && mayBeKept(current.isRoot)) {
      channel.postMessage({
        kept: { token: token.peek(), isOurs: current.isOurs, mount: current.mount } satisfies Kept,
      });
    }
    if (data.out) {
      lateUntil = 0;
      if (token.peek()) {
        forget();
        onOut();
      }
    }
    if (data.kept && Date.now() < lateUntil && !me.peek()) {
      lateUntil = 0;
      void signIn(data.kept.token, data.kept).then(onLate, () => {});
    }
  });
  const touch = (): void => {
    lastInput = Date.now();
  };
  for (const kind of ['pointerdown', 'keydown', 'wheel', 'touchstart'])
    addEventListener(kind, touch, { passive: true, capture: true });
  setInterval(() => {
    const now = Date.now();
    const current = me.peek();
    if (!current) return;
    const isOver = current.ends > 0 && now >= current.ends;
    // A session ends behind the lock too: what it visited is not for whoever comes then.
    if (isOver && cover.peek() === 'locked') {
      forgetPlaces();
      cover.value = 'ended';
    }
    if (!token.peek()) return;
    if (isOver) end('ended');
    else if (now - lastInput > Math.min(uiConfig.peek().idle_secs, 3600) * 1000) end('locked');
  }, 1000);
}
