// Where the page starts: theme, address, session; then the screen of the route, each group of screens in a file of its own that is loaded when needed.
import { render, type ComponentType } from 'preact';
import { useEffect, useState } from 'preact/hooks';
import './core.ts';
import { Dialogs, isDialogOpen } from './parts/dialog.tsx';
import { isAnyTouched } from './parts/form.tsx';
import * as en from './en/parts/ui.ts';
import { Failed, Loading } from './parts/ui.tsx';
import type { Frame } from './parts/frame.tsx';
import { askTable, forgetNeeds } from './lib/needs.ts';
import { forgetMounts } from './lib/place.ts';
import { startTheme } from './lib/prefs.ts';
import { go, guard, href, route, startRouter } from './lib/router.ts';
import { askConfig, askServer } from './lib/server.ts';
import { isKept, resume, startSession } from './lib/session.ts';
import { cover, me, namespace, onSealed, server, token } from './lib/state.ts';
import { Login, SignInAgain } from './screens/login.tsx';

type Load = () => Promise<ComponentType>;
const OUTSIDE: Record<string, Load> = {
  setup: () => import('./screens/setup.tsx').then((file) => file.Setup),
  unseal: () => import('./screens/setup.tsx').then((file) => file.Unseal),
  open: () => import('./screens/open.tsx').then((file) => file.Open),
  callback: () => import('./screens/callback.tsx').then((file) => file.Callback),
};
const INSIDE: Record<string, Load> = {
  '': () => import('./screens/home.tsx').then((file) => file.Home),
  s: () => import('./screens/secrets/index.tsx').then((file) => file.Secrets),
  find: () => import('./screens/find.tsx').then((file) => file.Find),
  compare: () => import('./screens/secrets/compare.tsx').then((file) => file.Compare),
  transit: () => import('./screens/transit.tsx').then((file) => file.Transit),
  people: () => import('./screens/people/index.tsx').then((file) => file.People),
  tokens: () => import('./screens/tokens.tsx').then((file) => file.Tokens),
  review: () => import('./screens/review.tsx').then((file) => file.Review),
  metrics: () => import('./screens/metrics.tsx').then((file) => file.Metrics),
  snapshots: () => import('./screens/snapshots.tsx').then((file) => file.Snapshots),
  log: () => import('./screens/log.tsx').then((file) => file.Log),
  settings: () => import('./screens/settings/index.tsx').then((file) => file.Settings),
  tools: () => import('./screens/tools.tsx').then((file) => file.Tools),
  vault: () => import('./screens/authorize.tsx').then((file) => file.Authorize),
  policies: () => import('./screens/policies/index.tsx').then((file) => file.Policies),
  cluster: () => import('./screens/cluster/index.tsx').then((file) => file.Cluster),
  audit: () => import('./screens/audit/index.tsx').then((file) => file.Audit),
  shared: () => import('./screens/shared.tsx').then((file) => file.Shared),
};

let frame: Promise<typeof Frame> | undefined;
/** What all screens share is loaded once somebody is in: the login page does without. Its file is named in the shell, so that it is asked for at once. */
const loadFrame = (): Promise<typeof Frame> =>
  (frame ??=
    (preload('inside'),
    import('./inside.ts').then((part) => {
      part.startKeys();
      return part.Frame;
    })));

function preload(name: string): void {
  const href = document.querySelector<HTMLMetaElement>(`meta[name="${name}"]`)?.content;
  if (href)
    document.head.append(
      Object.assign(document.createElement('link'), { rel: 'modulepreload', href }),
    );
}

/** The screens whose files are there. */
const parts = new Map<string, ComponentType>();

/** The screen of a route. The one that is left goes at once: it would take the new address for one of its own. */
function Screen({ loads, name }: { loads: Record<string, Load>; name: string }) {
  const [loaded, setLoaded] = useState<{ name: string; error?: unknown }>({ name: '' });
  useEffect(() => {
    let isLate = false;
    if (parts.has(name)) return;
    loads[name]?.().then(
      (Part) => {
        parts.set(name, Part);
        if (!isLate) setLoaded({ name });
      },
      (error: unknown) => {
        if (!isLate) setLoaded({ name, error });
      },
    );
    return () => {
      isLate = true;
    };
  }, [name]);
  const Part = parts.get(name);
  if (Part) return <Part key={name} />;
  if (!loads[name]) return <Failed isMissing error={en.noScreenHasThisAddress} />;
  if (loaded.name === name && loaded.error)
    return <Failed error={loaded.error} retry={() => location.reload()} />;
  return <Loading rows={8} />;
}

function App() {
  const first = route.value.path.split('/')[0] ?? '';
  const isIn = me.value !== undefined;
  const ns = namespace.value;
  const signedIn = token.value !== '';
  useEffect(() => {
    if (!signedIn) return;
    forgetNeeds();
    forgetMounts();
    void askTable();
  }, [ns, signedIn]);
  const [Shown, setShown] = useState<typeof Frame | undefined>(undefined);
  useEffect(() => {
    if (!isIn || Shown) return;
    void loadFrame().then((Part) => setShown(() => Part));
  }, [isIn]);
  if (OUTSIDE[first])
    return (
      <>
        <Screen loads={OUTSIDE} name={first} />
        <Dialogs />
      </>
    );
  if (first === 'login' || !isIn)
    return (
      <>
        <Login />
        <Dialogs />
      </>
    );
  return Shown ? (
    <Shown again={<SignInAgain />}>
      <Screen loads={INSIDE} name={first} />
    </Shown>
  ) : (
    <div class="outside" />
  );
}

/** Leads to the unseal or setup page, with the way back kept. */
function leadOut(): void {
  const here = location.pathname + location.search;
  if (/^\/ui\/(unseal|setup|open)/.test(here)) return;
  const to = server.peek().initialized ? 'unseal' : 'setup';
  history.pushState(null, '', href(to, { to: here }));
  dispatchEvent(new PopStateEvent('popstate'));
}

async function start(): Promise<void> {
  startTheme();
  startRouter();
  // An open edit, dialog or form stays where it is, behind a cover that unseals in its place; the page is left only where nothing is open.
  onSealed.value = () => {
    if (me.peek() && (guard.peek() || isDialogOpen() || isAnyTouched())) cover.value = 'sealed';
    else if (cover.peek() !== 'sealed') void askServer().then(() => leadOut());
  };
  const leave = (): void => {
    void go(href('login'));
  };
  const enter = (): void => {
    if (route.peek().path.startsWith('login'))
      void go(route.peek().query.get('to') ?? href(''), true);
  };
  startSession(leave, enter);
  const first = route.value.path.split('/')[0] ?? '';
  const isInside = first !== 'login' && !OUTSIDE[first];
  const told = Promise.all([askServer(), askConfig()]);
  // What the session of this tab will show is fetched while the server is asked how it is, and so is who it belongs to: each would wait for the other for nothing.
  if (isInside && isKept()) {
    void loadFrame();
    void INSIDE[first]?.();
  }
  const resumed = isInside ? resume(told) : undefined;
  await told;
  const state = server.value;
  if (state.ok && (!state.initialized || state.sealed)) leadOut();
  else await resumed;
  const root = document.getElementById('app');
  // The mark of the shell stands there until now.
  root?.replaceChildren();
  if (root) render(<App />, root);
}

void start();
