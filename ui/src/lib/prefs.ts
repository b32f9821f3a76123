// What a person chose for this browser: theme, density, keys, pinned and recent places. In localStorage: names of places at most, never a value.
import { effect, signal, type Signal } from '@preact/signals';

function stored<T>(key: string, otherwise: T): Signal<T> {
  const read = (get: () => string | null): T => {
    try {
      const text = get();
      return text === null ? otherwise : (JSON.parse(text) as T);
    } catch {
      /* Forbidden, or something else's; ours begins anew. */ return otherwise;
    }
  };
  const value = signal<T>(read(() => localStorage.getItem(key)));
  // Told of what another tab wrote, so that this one adds to it and does not write over it.
  addEventListener('storage', (event) => {
    if (event.key === key) value.value = read(() => event.newValue);
  });
  effect(() => {
    try {
      localStorage.setItem(key, JSON.stringify(value.value));
    } catch {
      /* Full or forbidden: it holds until the reload. */
    }
  });
  return value;
}

export type Theme = 'system' | 'light' | 'dark';
export const theme = stored<Theme>('kallisto.theme', 'system');
export const density = stored<'normal' | 'compact'>('kallisto.density', 'normal');
export const keysOn = stored<boolean>('kallisto.keys', true);
/** Places somebody pinned or opened, with their namespace: `ns\nplace`. */
export const pinned = stored<string[]>('kallisto.pinned', []);
export const recent = stored<string[]>('kallisto.recent', []);
/** Hides names too while a screen is shared; not kept. */
export const sharing = signal(false);

const RECENT_MAX = 20;
export function visited(place: string): void {
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
