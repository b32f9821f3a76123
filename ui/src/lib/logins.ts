// Signing in by each method: what to ask for, and where to send it.
import * as common from '../en/common.ts';
import * as en from '../en/lib/logins.ts';
import { ApiError, call, tryCall } from './api.ts';
import { signIn, take } from './session.ts';
import { uiConfig } from './state.ts';

/** Every kind of login method, and logging in with a token. A test of `kallisto` compares them with the server's. */
export const KINDS = [
  ['token', common.token],
  ['userpass', en.userNameAndPassword],
  ['approle', 'AppRole'],
  ['jwt', 'JWT'],
  ['oidc', 'OIDC'],
  ['cert', en.tlsCertificate],
  ['ldap', 'LDAP'],
  ['kubernetes', 'Kubernetes'],
  ['github', 'GitHub'],
  ['okta', 'Okta'],
] as const;
export type Kind = (typeof KINDS)[number][0];
/** What can be mounted. */
export type MethodKind = Exclude<Kind, 'token'>;

export interface Way {
  kind: Kind;
  mount: string;
  label: string;
}
export interface FieldOf {
  name: string;
  label: string;
  masked?: boolean;
  rows?: number;
  optional?: boolean;
  autocomplete?: string;
}

/** What a method asks for. */
export function fieldsOf(kind: Kind): FieldOf[] {
  switch (kind) {
    case 'token':
      return [{ name: 'token', label: common.token, masked: true }];
    case 'userpass':
    case 'ldap':
      return [
        { name: 'username', label: en.userName, autocomplete: 'username' },
        { name: 'password', label: en.password, masked: true, autocomplete: 'current-password' },
      ];
    case 'okta':
      return [
        { name: 'username', label: en.userName, autocomplete: 'username' },
        { name: 'password', label: en.password, masked: true, autocomplete: 'current-password' },
        { name: 'totp', label: en.codeOfYourApp, optional: true, autocomplete: 'one-time-code' },
      ];
    case 'github':
      return [{ name: 'token', label: en.tokenOfGithub, masked: true }];
    case 'approle':
      return [
        { name: 'role_id', label: en.roleId },
        { name: 'secret_id', label: en.secretId, masked: true, optional: true },
      ];
    case 'jwt':
    case 'kubernetes':
      return [
        { name: 'role', label: en.role, optional: kind === 'jwt' },
        { name: 'jwt', label: en.jwt, rows: 4 },
      ];
    case 'oidc':
      return [{ name: 'role', label: en.role, optional: true }];
    case 'cert':
      return [{ name: 'name', label: en.role, optional: true }];
  }
}

/** Which methods machines use, not people. */
const FOR_MACHINES: Record<Kind, boolean> = {
  token: false,
  userpass: false,
  approle: true,
  jwt: true,
  oidc: false,
  cert: true,
  ldap: false,
  kubernetes: true,
  github: false,
  okta: false,
};

/** The methods an operator shows to everybody, in their order. */
export async function publicWays(): Promise<Way[]> {
  const reply = await tryCall<{ auth?: Record<string, { type: string; description?: string }> }>(
    'GET',
    'sys/internal/ui/mounts',
    { token: '' },
  );
  const order = uiConfig.peek().logins;
  const found = Object.entries(reply?.data.auth ?? {}).map(([path, entry]): Way => ({
    kind: entry.type as Kind,
    mount: path.replace(/\/$/, ''),
    label:
      entry.description ||
      order.find((one) => one.mount.replace(/\/$/, '') === path.replace(/\/$/, ''))?.label ||
      path.replace(/\/$/, ''),
  }));
  // The server lists them by path where the operator gave them no order.
  const isSaid = order.some((one, i) => i > 0 && one.mount < (order[i - 1]?.mount ?? ''));
  const place = (way: Way): number => {
    const at = order.findIndex((one) => one.mount.replace(/\/$/, '') === way.mount);
    return at < 0 ? order.length : at;
  };
  const known = found.filter((way) => KINDS.some(([kind]) => kind === way.kind));
  for (const one of order) {
    const mount = one.mount.replace(/\/$/, '');
    if (!known.some((way) => way.mount === mount))
      known.push({ kind: one.type as Kind, mount, label: one.label || mount });
  }
  // Where the operator says nothing, what people use comes before what machines use.
  const forMachines = (way: Way): number => Number(FOR_MACHINES[way.kind]);
  return known.sort(
    (a, b) =>
      (isSaid ? place(a) - place(b) : 0) ||
      forMachines(a) - forMachines(b) ||
      a.mount.localeCompare(b.mount),
  );
}

/** Methods where people give a name and a password; the name is a part of the path. */
const byPassword = (kind: Kind): boolean => fieldsOf(kind).some(({ name }) => name === 'username');

/** Signs in; `values` are the fields of the method. */
export async function login(way: Way, values: Record<string, string>): Promise<void> {
  if (way.kind === 'token')
    return signIn((values['token'] ?? '').trim(), { isOurs: false, mount: '' });
  const at = `auth/${way.mount}/login`;
  const { username, ...rest } = values;
  const body = Object.fromEntries(Object.entries(rest).filter(([, value]) => value !== ''));
  const { auth } = await call('POST', byPassword(way.kind) ? `${at}/${username ?? ''}` : at, {
    token: '',
    body,
    quiet: false,
  });
  await take(way.mount, auth);
}

/** What a refusal of a login means for the person who tries. */
export function loginWords(error: unknown, kind: Kind): string {
  if (!(error instanceof ApiError)) return error instanceof Error ? error.message : String(error);
  if (error.status === 403 && kind === 'token') return en.thisTokenIsNotValidHere;
  if (error.status === 403 && byPassword(kind) && /permission denied/.test(error.message))
    return en.lockedTooManyWrongPasswordsWait;
  if (error.status === 400 && (kind === 'userpass' || kind === 'ldap'))
    return en.theUserNameOrThePassword;
  if (error.status === 404) return en.thereIsNoSuchLoginMethod;
  if (error.status === 429) return en.tooManyTriesWaitALittle;
  return error.message;
}
