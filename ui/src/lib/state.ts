// What the whole page shares: where it is, who is signed in, what the server said about itself. Each a signal; who writes it is named beside it.
import { computed, signal } from '@preact/signals';

export interface Me {
  accessor: string;
  name: string;
  policies: string[];
  entityId: string;
  path: string;
  /** When the session ends, in ms since 1970; 0 for never. */
  ends: number;
  renewable: boolean;
  isRoot: boolean;
  /** Whether the page made the token by a login, and so revokes it at logout. */
  isOurs: boolean;
  /** Mount of the login, for signing in again. */
  mount: string;
  ttl: number;
  type: string;
  /** The namespace that the token is of, which may be above the one in view; its cubbyhole is there. */
  ns: string;
}

/** The token, in memory; `lib/session` alone writes it and keeps a copy in this tab's storage where allowed. */
export const token = signal('');
/** Who is signed in; written by `lib/session`. */
export const me = signal<Me | undefined>(undefined);
/** The namespace of all requests, without a final slash; written by `lib/router` from the address. */
export const namespace = signal('');
/** A quiet note about the server under way: no leader, too many requests; written by `lib/api`. */
export const serverNote = signal('');
/** The server's own word; written by `lib/server`. */
export const server = signal<Server>({
  version: '',
  sealed: false,
  standby: false,
  initialized: true,
  name: '',
  ok: true,
});
export interface Server {
  version: string;
  sealed: boolean;
  standby: boolean;
  initialized: boolean;
  name: string;
  ok: boolean;
  cluster?: string;
  threshold?: number;
  shares?: number;
  progress?: number;
  type?: string;
  nonce?: string;
  recovery?: boolean;
}
/** Set while the session has ended, is locked, or the server was sealed amid an edit: why; the screen stays mounted behind it. */
export const cover = signal<'' | 'ended' | 'locked' | 'sealed'>('');
/** Called when an answer says that the server is sealed; set by `main`. */
export const onSealed = signal<(() => void) | undefined>(undefined);
/** Called when the token turns out to have ended; set by `lib/session`. */
export const onTokenEnd = signal<(() => void) | undefined>(undefined);
/** Settings of the operator (contract E2), with what holds without it; written by `lib/server`. */
export const uiConfig = signal<UiConfig>({
  idle_secs: 900,
  reveal_secs: 30,
  clipboard_secs: 45,
  session: 'tab',
  private_titles: false,
  logins: [],
});
export interface UiConfig {
  idle_secs: number;
  reveal_secs: number;
  clipboard_secs: number;
  session: string;
  private_titles: boolean;
  banner?: { text: string; level: string; until?: string } | null;
  logins: { mount: string; type: string; label?: string }[];
}
export const isRoot = computed(() => me.value?.isRoot ?? false);
