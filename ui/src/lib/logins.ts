// Signing in by each method: what to ask for, and where to send it.
import { ApiError, call, type Auth, tryCall } from './api.ts';
import { signIn } from './session.ts';
import { uiConfig } from './state.ts';

export type Kind = 'token' | 'userpass' | 'ldap' | 'approle' | 'jwt' | 'oidc' | 'cert' | 'kubernetes';
export interface Way { kind: Kind; mount: string; label: string }
export interface FieldOf { name: string; label: string; masked?: boolean; rows?: number; optional?: boolean; autocomplete?: string }

export const KINDS: readonly (readonly [Kind, string])[] = [['token', 'Token'], ['userpass', 'User name and password'], ['approle', 'AppRole'], ['jwt', 'JWT'], ['oidc', 'OIDC'], ['cert', 'TLS certificate'], ['ldap', 'LDAP'], ['kubernetes', 'Kubernetes']];

/** What a method asks for. */
export function fieldsOf(kind: Kind): FieldOf[] {
  switch (kind) {
    case 'token': return [{ name: 'token', label: 'Token', masked: true }];
    case 'userpass': case 'ldap': return [{ name: 'username', label: 'User name', autocomplete: 'username' }, { name: 'password', label: 'Password', masked: true, autocomplete: 'current-password' }];
    case 'approle': return [{ name: 'role_id', label: 'Role id' }, { name: 'secret_id', label: 'Secret id', masked: true, optional: true }];
    case 'jwt': case 'kubernetes': return [{ name: 'role', label: 'Role', optional: kind === 'jwt' }, { name: 'jwt', label: 'JWT', rows: 4 }];
    case 'oidc': return [{ name: 'role', label: 'Role', optional: true }];
    case 'cert': return [{ name: 'name', label: 'Role', optional: true }];
  }
}

/** The methods an operator shows to everybody, in their order. */
export async function publicWays(): Promise<Way[]> {
  const reply = await tryCall<{ auth?: Record<string, { type: string; description?: string }> }>('GET', 'sys/internal/ui/mounts', { token: '' });
  const order = uiConfig.peek().logins;
  const found = Object.entries(reply?.data.auth ?? {}).map(([path, entry]): Way => ({ kind: entry.type as Kind, mount: path.replace(/\/$/, ''), label: entry.description || order.find((one) => one.mount.replace(/\/$/, '') === path.replace(/\/$/, ''))?.label || path.replace(/\/$/, '') }));
  const place = (way: Way): number => { const at = order.findIndex((one) => one.mount.replace(/\/$/, '') === way.mount); return at < 0 ? order.length : at; };
  const known = found.filter((way) => KINDS.some(([kind]) => kind === way.kind));
  for (const one of order) {
    const mount = one.mount.replace(/\/$/, '');
    if (!known.some((way) => way.mount === mount)) known.push({ kind: one.type as Kind, mount, label: one.label || mount });
  }
  return known.sort((a, b) => place(a) - place(b) || a.mount.localeCompare(b.mount));
}

/** Signs in; `values` are the fields of the method. */
export async function login(way: Way, values: Record<string, string>): Promise<void> {
  if (way.kind === 'token') return signIn((values['token'] ?? '').trim(), { isOurs: false, mount: '' });
  const at = `auth/${way.mount}/login`;
  const { username, ...rest } = values;
  const body = Object.fromEntries(Object.entries(rest).filter(([, value]) => value !== ''));
  const { auth, body: answer } = await call('POST', way.kind === 'userpass' || way.kind === 'ldap' ? `${at}/${username ?? ''}` : at, { token: '', body, quiet: false });
  if (!auth?.client_token) throw new ApiError(200, [`The login needs a second step, which this page does not have yet (${Object.keys(answer).join(', ')}).`], 'POST', at);
  await signIn(auth.client_token, { isOurs: true, mount: way.mount, auth: auth as Auth });
}

/** What a refusal of a login means for the person who tries. */
export function loginWords(error: unknown, kind: Kind): string {
  if (!(error instanceof ApiError)) return error instanceof Error ? error.message : String(error);
  if (error.status === 403 && kind === 'token') return 'This token is not valid here: it has ended, was revoked, or belongs to another server or namespace.';
  if (error.status === 403 && (kind === 'userpass' || kind === 'ldap')) return 'Locked: too many wrong passwords. Wait, or ask an administrator to unlock it.';
  if (error.status === 400 && (kind === 'userpass' || kind === 'ldap')) return 'The user name or the password is wrong.';
  if (error.status === 404) return 'There is no such login method here.';
  if (error.status === 429) return 'Too many tries. Wait a little.';
  return error.message;
}
