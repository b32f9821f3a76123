// The frame around every screen: rail, top bar, cover of an ended session, dialogs and notices.
import * as common from '../en/common.ts';
import * as en from '../en/parts/frame.ts';
import type { ComponentChildren } from 'preact';
import { useEffect, useLayoutEffect, useRef, useState } from 'preact/hooks';
import { can, type NeedName } from '../lib/needs.ts';
import { plural, span, visible } from '../lib/time.ts';
import { href, route } from '../lib/router.ts';
import { sharing } from '../lib/prefs.ts';
import { dismiss, toast, toasts } from '../lib/toasts.ts';
import { cover, me, namespace, server, serverNote, token, uiConfig } from '../lib/state.ts';
import { renew, isEnding, secondsLeft, signOut } from '../lib/session.ts';
import { lastSegment } from '../lib/place.ts';
import { Dialogs } from './dialog.tsx';
import { Icon, Mark, type IconName } from './icons.tsx';
import type { UnsealSteps } from '../screens/setup.tsx';
import { onAsk } from '../lib/api.ts';
import { noteAsked } from '../lib/asked.ts';
import { openMe } from './me-menu.tsx';
import { openNamespaces } from './namespaces.tsx';
import { openPalette } from './palette.tsx';
import { Button, Note } from './ui.tsx';

interface Entry {
  at: string;
  label: string;
  icon: IconName;
  under?: string[];
  needs?: NeedName[];
  key?: string;
}
interface Group {
  label: string;
  title?: string;
  entries: Entry[];
}

/** The rail. An entry that nobody with these rights could use is left out. */
export const RAIL: Group[] = [
  {
    label: en.main,
    entries: [
      { at: '', label: en.home, icon: 'home', key: 'h' },
      { at: 's/', label: common.secrets, icon: 'key', under: ['s/', 'compare', 'find'], key: 's' },
      { at: 'transit/', label: common.transit, icon: 'bolt' },
      { at: 'shared', label: common.sharedByMe, icon: 'share' },
    ],
  },
  {
    label: en.access,
    title: en.access,
    entries: [
      { at: 'policies/', label: common.policies, icon: 'shield', needs: ['policies'], key: 'p' },
      {
        at: 'people/entities/',
        label: en.peopleAndApps,
        icon: 'users',
        under: ['people/'],
        needs: ['entities', 'groups', 'logins', 'locked'],
      },
      { at: 'tokens/', label: en.tokens, icon: 'tree', needs: ['tokens', 'tokenTree'], key: 't' },
      { at: 'review', label: en.accessReview, icon: 'search', needs: ['review'] },
    ],
  },
  {
    label: en.operations,
    title: en.operations,
    entries: [
      {
        at: 'cluster',
        label: common.cluster,
        icon: 'nodes',
        needs: ['cluster', 'raft', 'autopilot'],
        key: 'c',
      },
      { at: 'metrics', label: en.metrics, icon: 'chart', needs: ['metrics'], key: 'm' },
      { at: 'audit', label: en.audit, icon: 'audit', needs: ['audit'], key: 'a' },
      {
        at: 'snapshots',
        label: en.snapshots,
        icon: 'dl',
        needs: ['snapshotTake', 'snapshotRestore'],
      },
      { at: 'tools/wrap', label: en.tools, icon: 'wand', under: ['tools/'] },
      { at: 'settings/browser', label: en.settings, icon: 'cog', under: ['settings/', 'log'] },
    ],
  },
];

function Rail({ isOpen, close }: { isOpen: boolean; close: () => void }) {
  const path = route.value.path;
  const isHere = (entry: Entry): boolean =>
    entry.at === ''
      ? path === ''
      : [entry.at, ...(entry.under ?? [])].some(
          (one) =>
            path === one ||
            path === one.replace(/\/$/, '') ||
            path.startsWith(one.endsWith('/') ? one : `${one}/`),
        );
  const ns = namespace.value;
  const state = server.value;
  return (
    <aside class={`rail ${isOpen ? 'open' : ''}`} id="rail" aria-label={en.navigation}>
      <div class="brand">
        <a href={href('')} class="logo">
          <Mark />
          {en.kallisto}
        </a>
        {isOpen && <Button kind="ghost" icon="close" label={en.closeTheMenu} onClick={close} />}
      </div>
      <button class="ns" type="button" aria-haspopup="dialog" onClick={() => void openNamespaces()}>
        <Icon name="layers" small={false} />
        <span class="grow">
          <small>{common.namespace}</small>
          <b>{ns ? visible(ns.split('/').join(' / ')) : common.root}</b>
        </span>
        <Icon name="down" />
      </button>
      {RAIL.map((group) => {
        const entries = group.entries.filter(
          (entry) => !entry.needs || entry.needs.some((name) => can(name) === true),
        );
        if (entries.length === 0) return null;
        return (
          <nav aria-label={group.label} key={group.label}>
            {group.title && <h3>{group.title}</h3>}
            {entries.map((entry) => (
              <a
                key={entry.at}
                href={href(entry.at)}
                aria-current={isHere(entry) ? 'page' : undefined}
                onClick={close}
              >
                <Icon name={entry.icon} small={false} />
                {entry.label}
              </a>
            ))}
          </nav>
        );
      })}
      <div class="foot">
        <span class={`dot ${state.sealed || !state.ok ? 'bad' : ''}`} />
        <span class="grow">
          <span class="one-line" title={state.name}>
            {state.name || en.kallisto2}
          </span>
          <small>
            {state.ok ? (state.sealed ? en.sealed : en.unsealed) : en.noAnswer} · {state.version}
          </small>
        </span>
      </div>
    </aside>
  );
}

/** Screens whose parts have names of their own. */
const NAMED = new Set(['people', 'settings', 'tools']);
/** The trail of the route in view: each part a link to where it leads. */
function crumbs(path: string): { text: string; to?: string }[] {
  const parts = path.split('/').filter(Boolean);
  const [first = 'home', ...rest] = parts;
  if (first === 's' || first === 'transit') {
    const isFolder = path.endsWith('/');
    const made: { text: string; to?: string }[] = [
      { text: first === 's' ? en.secrets : en.transit, to: `${first}/` },
    ];
    rest.forEach((part, i) =>
      made.push({
        text: visible(part),
        to: `${first}/${rest.slice(0, i + 1).join('/')}${i === rest.length - 1 && !isFolder ? '' : '/'}`,
      }),
    );
    return made;
  }
  const group = ['cluster', 'metrics', 'audit', 'snapshots', 'log'].includes(first)
    ? en.crumb('operations')
    : undefined;
  return [
    ...(group ? [{ text: group }] : []),
    { text: en.crumb(first), to: rest.length > 0 ? `${first}/` : first },
    ...rest.map((part, i) => ({
      text: (i === 0 && NAMED.has(first)) || part === 'simulate' ? en.crumb(part) : visible(part),
      to: [first, ...rest.slice(0, i + 1)].join('/'),
    })),
  ];
}

function Top({ menu }: { menu: () => void }) {
  const [now, setNow] = useState(Date.now());
  useEffect(() => {
    const timer = setInterval(() => setNow(Date.now()), 15_000);
    return () => clearInterval(timer);
  }, []);
  const trail = crumbs(route.value.path);
  const tab = route.value.query.get('tab');
  if (tab) trail.push({ text: en.crumb(tab) });
  const left = secondsLeft(now);
  const current = me.value;
  const isMac = /Mac|iPhone|iPad/.test(navigator.userAgent);
  return (
    <header class="top">
      <Button kind="ghost" icon="menu" label={en.menu} class="burger" onClick={menu} />
      <nav class="crumbs" aria-label={en.breadcrumb}>
        {trail.map((crumb, i) => {
          const isLast = i === trail.length - 1;
          return (
            <>
              {i > 0 && <Icon name="chev" />}
              {isLast ? (
                <span aria-current="page">{crumb.text}</span>
              ) : crumb.to !== undefined ? (
                <a href={href(crumb.to)} class={i === trail.length - 2 ? 'back' : ''}>
                  {crumb.text}
                </a>
              ) : (
                <span class="crumb">{crumb.text}</span>
              )}
            </>
          );
        })}
      </nav>
      <button
        class="find"
        type="button"
        aria-keyshortcuts="Control+K"
        onClick={() => void openPalette()}
      >
        <Icon name="search" small={false} />
        <span class="grow">{en.searchSecretsPoliciesPeople}</span>
        <kbd aria-hidden="true">{isMac ? '⌘K' : en.ctrlK}</kbd>
      </button>
      {left !== undefined && (
        <span class="timer" title={en.untilTheSessionEnds}>
          <Icon name="clock" />
          {left < 60 ? `${left} s` : span(Math.round(left / 60) * 60)}
        </span>
      )}
      {current && (
        <button class="me" type="button" aria-haspopup="dialog" onClick={openMe}>
          <span class="avatar" data-initials={initials(current.name)} />
          <span class="who">
            {visible(current.name)}
            <span class="sr">{en.sessionAndPreferences}</span>
          </span>
        </button>
      )}
    </header>
  );
}

const initials = (name: string): string => {
  const parts = name.split(/[^\p{L}\p{N}]+/u).filter(Boolean);
  return ((parts[0]?.[0] ?? '?') + (parts[1]?.[0] ?? parts[0]?.[1] ?? '')).toUpperCase();
};

function Ending() {
  const [now, setNow] = useState(Date.now());
  const [left, setLeft] = useState(false);
  useEffect(() => {
    const timer = setInterval(() => setNow(Date.now()), 1000);
    return () => clearInterval(timer);
  }, []);
  const current = me.value;
  // The next session has an end of its own.
  useEffect(() => {
    setLeft(false);
  }, [current?.accessor]);
  if (!current || !token.value || left || !isEnding(now)) return null;
  const seconds = secondsLeft(now) ?? 0;
  return (
    <div class="banner warn" role="alertdialog" aria-label={en.theSessionEndsSoon}>
      <Icon name="clock" small={false} />
      <span class="grow">{en.theSessionEndsIn(span(seconds))}</span>
      {current.renewable && (
        <Button
          kind="primary"
          size="sm"
          onClick={() =>
            void renew().catch((error: Error) => {
              toast(en.theSessionIsNotLonger(error.message));
              setLeft(true);
            })
          }
        >
          {en.staySignedIn}
        </Button>
      )}
      <Button size="sm" onClick={() => setLeft(true)}>
        {en.letItEnd}
      </Button>
    </div>
  );
}

function Toasts() {
  return (
    <div class="toasts" role="status" aria-live="polite">
      {toasts.value.map((one) => (
        <div class="toast" key={one.id}>
          <span class="grow">{one.text}</span>
          {one.action && (
            <Button
              size="sm"
              onClick={() => {
                one.action?.run();
                dismiss(one.id);
              }}
            >
              {one.action.label}
            </Button>
          )}
          <Button
            kind="ghost"
            size="sm"
            icon="close"
            label={en.dismiss}
            onClick={() => dismiss(one.id)}
          />
        </div>
      ))}
    </div>
  );
}

/** Over everything, open dialogs too: a dialog without a way out but what stands in it. A browser closes a dialog by a second Escape whatever `cancel` says, so the key is
 * kept from it, and what closes nevertheless opens again. */
function Cover({ title, children }: { title: string; children: ComponentChildren }) {
  const own = useRef<HTMLDialogElement>(null);
  useLayoutEffect(() => {
    const before = document.activeElement;
    own.current?.showModal();
    own.current?.querySelector<HTMLElement>('input')?.focus();
    const stay = (event: KeyboardEvent): void => {
      if (event.key === 'Escape' && !(event.target as Element).closest('dialog:not(.cover)'))
        event.preventDefault();
    };
    addEventListener('keydown', stay, true);
    return () => {
      removeEventListener('keydown', stay, true);
      if (before instanceof HTMLElement) before.focus();
    };
  }, []);
  return (
    <dialog
      ref={own}
      class="cover"
      aria-label={title}
      onCancel={(event) => event.preventDefault()}
      onClose={() => own.current?.showModal()}
    >
      <div class="gate">
        <div class="gatehead">
          <Mark />
          <h1>{title}</h1>
        </div>
        {children}
      </div>
    </dialog>
  );
}

/** Over an edit while the server is sealed: unsealing in its place, by anybody at any browser; then the edit goes on. */
function SealedCover() {
  const [Steps, setSteps] = useState<typeof UnsealSteps | undefined>(undefined);
  useEffect(() => {
    void import('../screens/setup.tsx').then((file) => setSteps(() => file.UnsealSteps));
  }, []);
  return (
    <Cover title={en.theServerIsSealed}>
      <Note kind="accent">{en.yourEditIsKeptInThis}</Note>
      {Steps && (
        <Steps
          onOpen={() => {
            cover.value = token.peek() ? '' : 'ended';
          }}
        />
      )}
    </Cover>
  );
}

const QUIET = /^sys\/(capabilities-self|internal\/ui\/|seal-status)|^auth\/token\/lookup-self/;
onAsk.run = (method, path, { query, body, text, ns }) => {
  // What the page asks for itself is no request of a screen.
  if (QUIET.test(path)) return;
  const pairs = Object.entries(query ?? {}).flatMap(([key, value]): [string, string][] =>
    value === undefined ? [] : [[key, String(value)]],
  );
  const fields =
    body !== null && typeof body === 'object'
      ? Object.keys(body)
      : text === undefined
        ? []
        : ['data'];
  noteAsked({ method, path, query: pairs, fields, ns: ns ?? namespace.peek() });
};

/** The whole page of somebody signed in. */
export function Frame({
  children,
  again,
}: {
  children: ComponentChildren;
  again: ComponentChildren;
}) {
  const [isOpen, setOpen] = useState(false);
  useEffect(() => {
    setOpen(false);
  }, [route.value.path]);
  const banner = uiConfig.value.banner;
  const covered = cover.value;
  const last = lastSegment(route.value.path);
  useEffect(() => {
    document.title =
      uiConfig.value.private_titles || !last ? 'Kallisto' : en.kallisto3(visible(last));
  }, [last]);
  return (
    <>
      <a
        class="skip"
        href="#content"
        onClick={(event) => {
          event.preventDefault();
          document.querySelector<HTMLElement>('main')?.focus();
        }}
      >
        {en.skipToTheContent}
      </a>
      <div class={`app ${sharing.value ? 'sharing' : ''}`} inert={covered !== ''}>
        {isOpen && <div class="scrim" onClick={() => setOpen(false)} />}
        <Rail isOpen={isOpen} close={() => setOpen(false)} />
        <Top menu={() => setOpen(!isOpen)} />
        <main id="content" tabIndex={-1}>
          {me.value?.isRoot && (
            <div class="banner root">
              <Icon name="warn" small={false} />
              <span class="grow">
                {en.signedInWithARootToken} <span class="hide-phone">{en.aReloadSignsOut}</span>
              </span>
              <Button
                size="sm"
                onClick={() => void signOut(false).then(() => location.assign('/ui/login'))}
              >
                {common.signOut}
              </Button>
            </div>
          )}
          {banner?.text && (!banner.until || Date.parse(banner.until) > Date.now()) && (
            <div
              class={`banner ${banner.level === 'bad' || banner.level === 'warn' ? banner.level : 'accent'}`}
            >
              <Icon name="flag" small={false} />
              <span class="grow">{visible(banner.text)}</span>
            </div>
          )}
          {serverNote.value && (
            <div class="banner accent" role="status">
              <span class="spin" aria-hidden="true" />
              <span class="grow">{serverNote.value}</span>
            </div>
          )}
          <Ending />
          {children}
        </main>
      </div>
      {covered === 'sealed' ? (
        <SealedCover />
      ) : (
        covered && (
          <Cover key={covered} title={covered === 'locked' ? en.locked : en.theSessionHasEnded}>
            <Note kind="accent">
              {covered === 'locked' ? en.nobodyUsedThisPageForA : en.anOpenEditIsKeptSign}
            </Note>
            {again}
          </Cover>
        )
      )}
      <Dialogs />
      <Toasts />
    </>
  );
}

/** A sentence with a count, for headings. */
export const counted = plural;
