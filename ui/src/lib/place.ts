// Places: mount and path without a noun, as `kallisto kv` has them. The server finds the mount; a pasted API path (`kv/data/a`) is understood.
import { call, tryCall } from './api.ts';
import { addressFault } from './paths.ts';
import { href } from './router.ts';
import { namespace } from './state.ts';

export interface Mount {
  path: string;
  type: string;
  version: 1 | 2;
  description: string;
  accessor: string;
  options?: Record<string, string> | null;
}
export interface Place {
  mount: Mount;
  /** Below the mount; '' for its root. */
  path: string;
  isFolder: boolean;
}

const cache = new Map<string, Promise<Mount>>();
const readMount = (path: string, data: Record<string, any>): Mount => ({
  path: path.endsWith('/') ? path : `${path}/`,
  type: data['type'] ?? '',
  version: data['options']?.version === '2' ? 2 : 1,
  description: data['description'] ?? '',
  accessor: data['accessor'] ?? '',
  options: data['options'],
});

/** Every mount the caller reaches, sorted by path. */
export async function allMounts(): Promise<{ secret: Mount[]; auth: Mount[] }> {
  const { data } = await call<{ secret?: Record<string, any>; auth?: Record<string, any> }>(
    'GET',
    'sys/internal/ui/mounts',
  );
  const list = (mounts: Record<string, any> | undefined): Mount[] =>
    Object.entries(mounts ?? {})
      .map(([path, entry]) => readMount(path, entry as Record<string, any>))
      .sort((a, b) => a.path.localeCompare(b.path));
  return { secret: list(data.secret), auth: list(data.auth) };
}

export const forgetMounts = (): void => cache.clear();

/** What somebody typed or pasted: a path of the command line or of the API, or the whole address of either, or of this page. */
function typed(text: string): { place: string; ns?: string | undefined } {
  const [, kind, encoded, query] =
    /^https?:\/\/[^/]+\/(v1|ui\/s)\/([^?#]*)(?:\?([^#]*))?/i.exec(text.trim()) ?? [];
  if (encoded === undefined) return { place: text.replace(/^\/+/, '').replace(/^v1\//, '') };
  const place = encoded
    .split('/')
    .map((part) => {
      try {
        return decodeURIComponent(part);
      } catch {
        return part;
      }
    })
    .join('/');
  // An address of this page says its namespace, that of the API does not: it may be in a header.
  return {
    place,
    ns: kind?.toLowerCase() === 'v1' ? undefined : (new URLSearchParams(query).get('ns') ?? ''),
  };
}

/** Where that is on this page. */
export function hrefOf(text: string): string {
  const { place, ns } = typed(text);
  return href(`s/${place}`, {}, ns);
}

/** Why that leads nowhere; `undefined` if it is a place. */
export const typedFault = (text: string): string | undefined => addressFault(typed(text).place);

/** The mount of a place. */
export async function findPlace(text: string): Promise<Place> {
  const trimmed = text.replace(/^\/+/, '');
  const key = `${namespace.peek()}\n${trimmed.split('/').slice(0, 1).join('/')}`;
  const known = await cache.get(key)?.catch(() => undefined);
  const mount =
    known && trimmed.startsWith(known.path)
      ? known
      : await call<Record<string, any>>(
          'GET',
          `sys/internal/ui/mounts/${trimmed.replace(/\/+$/, '')}`,
        ).then(({ data }) => readMount(data['path'] as string, data));
  // Mounts may contain a slash, so only one of a single segment is kept for all places below it.
  if (mount.path.split('/').length === 2) cache.set(key, Promise.resolve(mount));
  let path = trimmed === mount.path.slice(0, -1) ? '' : trimmed.slice(mount.path.length);
  // An API path that was pasted, unless the mount has a folder of that name.
  const noun = mount.version === 2 ? /^(data|metadata|subkeys)\//.exec(path)?.[0] : undefined;
  if (noun && !(await tryCall('LIST', `${mount.path}metadata/${noun}`, { query: { limit: 1 } })))
    path = path.slice(noun.length);
  return { mount, path, isFolder: path === '' || path.endsWith('/') };
}

/** The API path for a noun of KV version 2; version 1 has none. */
export const apiPath = (
  { mount, path }: { mount: Mount; path: string },
  noun: 'data' | 'metadata' | 'subkeys' | 'undelete' | 'destroy' | 'delete',
): string => (mount.version === 2 ? `${mount.path}${noun}/${path}` : `${mount.path}${path}`);
export const placeText = ({ mount, path }: { mount: Mount; path: string }): string =>
  mount.path + path;
export const lastSegment = (path: string): string =>
  path.replace(/\/$/, '').split('/').at(-1) ?? '';
export const parentOf = (path: string): string => path.replace(/[^/]*\/?$/, '');

const PAGE = 10_000;
/** Names in a folder, page by page; `onPage` sees each. Falls back to LIST where the route for many is refused. */
export async function listFolder(
  place: Place,
  onPage: (names: string[], done: boolean) => void,
  signal: AbortSignal,
): Promise<'many' | 'plain'> {
  if (place.mount.type === 'kv' || place.mount.type === 'generic') {
    try {
      let next: string | undefined;
      do {
        const { data }: { data: Record<string, any> } = await call('GET', 'sys/kallisto/kv/list', {
          query: { path: placeText(place), limit: PAGE, next },
          signal,
        });
        next = (data['next'] as string | undefined) || undefined;
        onPage(
          ((data['names'] ?? data['keys'] ?? []) as unknown[]).map((one) =>
            typeof one === 'string' ? one : String((one as Record<string, unknown>)['name'] ?? ''),
          ),
          !next,
        );
      } while (next);
      return 'many';
    } catch (error) {
      if (signal.aborted) throw error;
      const status = (error as { status?: number }).status;
      if (status !== 403 && status !== 404) throw error;
    }
  }
  const path =
    place.mount.version === 2
      ? `${place.mount.path}metadata/${place.path}`
      : `${place.mount.path}${place.path}`;
  const reply = await call<{ keys?: string[] }>('LIST', path, { signal });
  onPage(reply.data.keys ?? [], true);
  return 'plain';
}

export interface VersionInfo {
  version: number;
  created_time: string;
  deletion_time: string;
  destroyed: boolean;
  created_by?: Writer | undefined;
  deleted_by?: Writer | undefined;
  request_id?: string | undefined;
}
export interface Writer {
  display_name: string;
  entity_id?: string;
  mount?: string;
}
export interface Metadata {
  current_version: number;
  oldest_version: number;
  max_versions: number;
  cas_required: boolean;
  delete_version_after: string;
  custom_metadata: Record<string, string> | null;
  created_time: string;
  updated_time: string;
  current_metadata_version?: number;
  versions: VersionInfo[];
}

export async function readMetadata(place: Place, signal?: AbortSignal): Promise<Metadata> {
  const { data } = await call<Record<string, any>>('GET', apiPath(place, 'metadata'), {
    ...(signal ? { signal } : {}),
  });
  const versions = Object.entries((data['versions'] ?? {}) as Record<string, Record<string, any>>)
    .map(([number, one]) => ({ ...one, version: Number(number) }) as VersionInfo)
    .sort((a, b) => b.version - a.version);
  return { ...(data as unknown as Metadata), versions };
}

export const stateOf = (one: VersionInfo, now = Date.now()): 'there' | 'deleted' | 'destroyed' =>
  one.destroyed
    ? 'destroyed'
    : one.deletion_time && Date.parse(one.deletion_time) <= now
      ? 'deleted'
      : 'there';

/** Names of the keys of a secret, without values; `undefined` where the right is missing or the engine has none. */
export async function readSubkeys(
  place: Place,
  version?: number,
): Promise<Record<string, any> | undefined> {
  if (place.mount.version === 1) return undefined;
  const reply = await tryCall<{ subkeys: Record<string, any> | null }>(
    'GET',
    apiPath(place, 'subkeys'),
    { query: { version } },
  );
  return reply?.data.subkeys ?? undefined;
}
