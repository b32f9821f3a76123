// The address bar as state: `/ui/PATH?ns=NAMESPACE&...`. Links are plain anchors; a click on one inside `/ui/` is taken here.
//
// The path after `/ui/s/` is the place of `kallisto kv`, mount included; segments are percent-encoded, a final slash is a folder. The namespace is
// always `?ns=`, and `href` keeps it. A screen with unsaved work sets `guard`, and is asked before it is left.
//
// Nothing here leaves `/ui/`: `href` makes no address of a path that a browser would resolve to another one (`lib/paths`), an address that decodes to such
// a path has no screen, and `go` takes an address as the browser will read it, wherever it came from.
import { signal } from '@preact/signals';
import { encodePath } from './api.ts';
import { addressFault } from './paths.ts';
import { namespace } from './state.ts';

export interface Route {
  /** Below `/ui/`, decoded; a final slash is kept. */
  path: string;
  query: URLSearchParams;
}

export const route = signal<Route>({ path: '', query: new URLSearchParams() });
/** All addresses of the page are below it. */
const BASE = '/ui/';
/** The path of what has no address: no screen is there, and the page says so. */
const NOWHERE = 'nowhere';
/** Asks whether unsaved work may be lost; resolves to true to go on. */
export const guard = signal<(() => Promise<boolean>) | undefined>(undefined);

/** Told when another screen comes into view; `parts/dialog` closes what was open over the old one. */
export const onMove: { run?: () => void } = {};

const decode = (text: string): string => {
  try {
    return decodeURIComponent(text);
  } catch {
    return text;
  }
};

/** How often another screen came into view. */
let moves = 0;

function read(): void {
  const text = location.pathname
    .replace(/^\/ui\/?/, '')
    .split('/')
    .map(decode)
    .join('/');
  // A browser leaves `..%2F` as it is: no screen is asked for what such an address decodes to.
  const path = addressFault(text) === undefined ? text : NOWHERE;
  const query = new URLSearchParams(location.search);
  const ns = (query.get('ns') ?? '').replace(/^\/+|\/+$/g, '');
  const isMoved =
    path !== route.peek().path ||
    query.get('tab') !== route.peek().query.get('tab') ||
    ns !== namespace.peek();
  namespace.value = ns;
  route.value = { path, query };
  if (!isMoved) return;
  moves += 1;
  onMove.run?.();
}

/** An address as the browser resolves it, if that is below `/ui/` of this server: what came with `?to=` or a link may say anything. */
export function within(url: string): string | undefined {
  try {
    const { origin, pathname, search, hash } = new URL(url, location.origin);
    const isOurs = origin === location.origin && pathname.startsWith(BASE);
    return isOurs ? pathname + search + hash : undefined;
  } catch {
    return undefined;
  }
}

/** The address of a route, in the namespace in view or in `ns`. */
export function href(
  path: string,
  query: Record<string, string | number | undefined> = {},
  ns = namespace.value,
): string {
  const pairs = new URLSearchParams();
  for (const [key, value] of Object.entries(query))
    if (value !== undefined && value !== '') pairs.set(key, String(value));
  if (ns) pairs.set('ns', ns);
  const text = pairs.toString().replaceAll('%2F', '/');
  return `${BASE}${addressFault(path) === undefined ? encodePath(path) : NOWHERE}${text && '?' + text}`;
}

/** Goes to an address, or home where that is not of this page; `replace` leaves no step in the history. */
export async function go(url: string, replace = false): Promise<void> {
  if (guard.peek() && !(await guard.peek()?.())) return;
  guard.value = undefined;
  const target = within(url) ?? href('');
  if (target === location.pathname + location.search) return read();
  history[replace ? 'replaceState' : 'pushState'](null, '', target);
  read();
  if (!replace) document.querySelector('main')?.scrollTo(0, 0);
}

/**
 * How to go on from the screen in view once what was asked of it is done. Nowhere, if somebody has left it meanwhile; what is unsaved there asks nothing,
 * since it was saved or is gone.
 */
export function fromHere(): (url: string, replace?: boolean) => Promise<void> {
  const start = moves;
  return async (url, replace = false) => {
    if (moves !== start) return;
    guard.value = undefined;
    await go(url, replace);
  };
}

/** Changes the query of the route in view. */
export function setQuery(change: Record<string, string | undefined>, replace = true): void {
  const query = new URLSearchParams(location.search);
  for (const [key, value] of Object.entries(change))
    value === undefined || value === '' ? query.delete(key) : query.set(key, value);
  const text = query.toString().replaceAll('%2F', '/');
  history[replace ? 'replaceState' : 'pushState'](
    null,
    '',
    location.pathname + (text && '?' + text),
  );
  read();
}

let shown = '';

/** Starts to follow the address bar, and clicks on links. */
export function startRouter(): void {
  read();
  shown = location.href;
  route.subscribe(() => {
    shown = location.href;
  });
  addEventListener('popstate', () => {
    if (!guard.peek()) return read();
    const wanted = location.href;
    history.pushState(null, '', shown);
    void guard
      .peek()?.()
      .then((isFree) => {
        if (!isFree) return;
        guard.value = undefined;
        history.pushState(null, '', wanted);
        read();
      });
  });
  addEventListener('beforeunload', (event) => {
    if (guard.peek()) event.preventDefault();
  });
  document.addEventListener('click', (event) => {
    if (
      event.defaultPrevented ||
      event.button !== 0 ||
      event.metaKey ||
      event.ctrlKey ||
      event.shiftKey ||
      event.altKey
    )
      return;
    const link = (event.target as Element | null)?.closest?.('a[href^="/ui/"]');
    if (!(link instanceof HTMLAnchorElement) || link.target || link.hasAttribute('download'))
      return;
    event.preventDefault();
    void go(link.getAttribute('href') ?? '/ui/');
  });
}
