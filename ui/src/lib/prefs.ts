// What a person chose for this browser: theme, density, keys, in localStorage. So are the places somebody pinned or opened, while their session lasts:
// names of places at most, never a value.
//
// A name of a secret may say much, so it is not for the next person at the browser. The lists say whose they are, and until when; `lib/session` forgets
// them at sign-out, when a session ends, and when somebody else signs in. A tab reads and writes only the lists of whoever is signed in there.
import { effect, signal, type Signal } from '@preact/signals';
import { me } from './state.ts';

function stored<T>(key: string, otherwise: T): Signal<T> {
  const value = signal<T>(parsed(() => localStorage.getItem(key)) ?? otherwise);
  // Told of what another tab wrote, so that this one adds to it and does not write over it.
  addEventListener('storage', (event) => {
    if (event.key === key) value.value = parsed<T>(() => event.newValue) ?? otherwise;
  });
  effect(() => write(key, value.value));
  return value;
}

function parsed<T>(get: () => string | null): T | undefined {
  try {
    return (JSON.parse(get() ?? 'null') as T | null) ?? undefined;
  } catch {
    /* Forbidden, or something else's; ours begins anew. */ return undefined;
  }
}

function write(key: string, value: unknown): void {
  try {
    if (value === undefined) localStorage.removeItem(key);
    else localStorage.setItem(key, JSON.stringify(value));
  } catch {
    /* Full or forbidden: it holds until the reload. */
  }
}

export type Theme = 'system' | 'light' | 'dark';
export const theme = stored<Theme>('kallisto.theme', 'system');
export const density = stored<'normal' | 'compact'>('kallisto.density', 'normal');
export const keysOn = stored<boolean>('kallisto.keys', true);
/** Hides names too while a screen is shared; not kept. */
export const sharing = signal(false);

/** Whose the lists of places are. */
interface Owner {
  /** An entity's id. */
  who: string;
  /** When the session ends, in ms since 1970; 0 for never. */
  until: number;
}
const OWNER = 'kallisto.owner';
/** The entity whose lists this tab reads and writes; none while nobody is signed in, and where they are in memory only. */
let holder: string | undefined;
const owner = (): Owner | undefined => parsed(() => localStorage.getItem(OWNER));
const isMine = (): boolean => holder !== undefined && owner()?.who === holder;

function places(key: string): Signal<string[]> {
  const value = signal<string[]>([]);
  addEventListener('storage', (event) => {
    if (event.key === key && isMine()) value.value = parsed(() => event.newValue) ?? [];
    // Another tab has forgotten them, or somebody else has signed in there.
    if (event.key === OWNER && holder !== undefined && !isMine()) value.value = [];
  });
  effect(() => {
    const list = value.value;
    if (isMine()) write(key, list);
  });
  return value;
}
/** Places somebody pinned or opened, with their namespace: `ns\nplace`. */
const PINNED = 'kallisto.pinned';
const RECENT = 'kallisto.recent';
export const pinned = places(PINNED);
export const recent = places(RECENT);

/** Forgets whose places were kept, here and in storage. */
export function forgetPlaces(): void {
  holder = undefined;
  pinned.value = [];
  recent.value = [];
  for (const key of [OWNER, PINNED, RECENT]) write(key, undefined);
}

/** Takes up the lists of whoever signs in: those that are there, if they are theirs. Without an entity (`undefined`) they are in memory only. */
export function ownPlaces(who: string | undefined, until: number): void {
  if (who === undefined || owner()?.who !== who) forgetPlaces();
  if (who === undefined) return;
  write(OWNER, { who, until } satisfies Owner);
  holder = who;
  pinned.value = parsed(() => localStorage.getItem(PINNED)) ?? [];
  recent.value = parsed(() => localStorage.getItem(RECENT)) ?? [];
}

// A session may have ended while no page was open.
const until = owner()?.until ?? -1;
if (until !== 0 && until <= Date.now()) forgetPlaces();

const RECENT_MAX = 20;
export function visited(place: string): void {
  // An answer may come after whoever asked has left.
  if (!me.peek()) return;
  const rest = recent.peek().filter((one) => one !== place);
  recent.value = [place, ...rest].slice(0, RECENT_MAX);
}
export function togglePin(place: string): void {
  const list = pinned.peek();
  pinned.value = list.includes(place) ? list.filter((one) => one !== place) : [...list, place];
}

const dark = matchMedia('(prefers-color-scheme: dark)');
/** Follows the chosen theme, and the system's. */
export function startTheme(): void {
  const apply = (): void => {
    const isDark = theme.value === 'dark' || (theme.value === 'system' && dark.matches);
    document.documentElement.dataset['theme'] = isDark ? 'dark' : 'light';
    document.documentElement.dataset['density'] = density.value ?? 'normal';
  };
  effect(apply);
  dark.addEventListener('change', apply);
}
