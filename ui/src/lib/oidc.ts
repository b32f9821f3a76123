// Signing in by OIDC, in the same tab: state and the client's nonce in `sessionStorage`, which the callback reads.
//
// The provider returns to `/ui/callback/MOUNT`. A popup is only for signing in again over unsaved work, and answers by `BroadcastChannel`.
import * as en from '../en/lib/oidc.ts';
import { call, type Auth } from './api.ts';
import { factored, take } from './session.ts';
import { namespace } from './state.ts';

const KEY = 'kallisto.oidc';
const POPUP_MS = 300_000;
interface Started {
  mount: string;
  nonce: string;
  to: string;
  ns: string;
  popup: boolean;
}

function random(): string {
  return Array.from(crypto.getRandomValues(new Uint8Array(24)), (byte) =>
    byte.toString(16).padStart(2, '0'),
  ).join('');
}
export const callbackUrl = (mount: string): string =>
  `${location.origin}/ui/callback/${mount.split('/').map(encodeURIComponent).join('/')}`;

/** Goes to the provider; with `popup` resolves once the popup has signed in. */
export async function oidcStart(mount: string, role: string, popup: boolean): Promise<void> {
  const nonce = random();
  const { data } = await call<{ auth_url: string }>('POST', `auth/${mount}/oidc/auth_url`, {
    token: '',
    body: { role, redirect_uri: callbackUrl(mount), client_nonce: nonce },
  });
  if (!data.auth_url) throw new Error(en.theRoleDoesNotAllowA(callbackUrl(mount)));
  const url = new URL(data.auth_url);
  if (url.protocol !== 'https:' && url.protocol !== 'http:')
    throw new Error(en.theProviderGaveAnAddressThat);
  const started: Started = {
    mount,
    nonce,
    to:
      new URLSearchParams(location.search).get('to') ??
      (location.pathname.startsWith('/ui/login') ? '/ui/' : location.pathname + location.search),
    ns: namespace.peek(),
    popup,
  };
  if (!popup) {
    sessionStorage.setItem(KEY, JSON.stringify(started));
    location.assign(url.href);
    return;
  }
  const opened = window.open('about:blank', 'kallisto-oidc', 'popup,width=520,height=680');
  if (!opened) throw new Error(en.theBrowserBlockedTheWindowFor);
  opened.sessionStorage.setItem(KEY, JSON.stringify(started));
  opened.location.assign(url.href);
  const made = await new Promise<{ auth: Auth }>((resolve, reject) => {
    const channel = new BroadcastChannel('kallisto-oidc');
    const timer = setTimeout(() => {
      channel.close();
      reject(new Error(en.theWindowForSigningInDid));
    }, POPUP_MS);
    channel.addEventListener('message', (event) => {
      const data = event.data as { nonce?: string; auth?: Auth };
      if (data.nonce === nonce && data.auth) {
        clearTimeout(timer);
        channel.close();
        resolve({ auth: data.auth });
      }
    });
  });
  await take(mount, made.auth);
}

/** Finishes at the callback; returns where to go, or `undefined` for a popup that closes. */
export async function oidcFinish(
  mount: string,
  query: URLSearchParams,
): Promise<string | undefined> {
  const kept = JSON.parse(sessionStorage.getItem(KEY) ?? 'null') as Started | null;
  sessionStorage.removeItem(KEY);
  if (query.get('error'))
    throw new Error(
      `${query.get('error')}: ${query.get('error_description') ?? en.theProviderRefused}`,
    );
  if (!kept || kept.mount !== mount) throw new Error(en.thisLoginWasNotBegunIn);
  const { auth: answer } = await call('GET', `auth/${mount}/oidc/callback`, {
    token: '',
    ns: kept.ns,
    query: {
      state: query.get('state') ?? '',
      code: query.get('code') ?? '',
      client_nonce: kept.nonce,
    },
  });
  const auth = await factored(answer, kept.ns);
  if (kept.popup) {
    const channel = new BroadcastChannel('kallisto-oidc');
    channel.postMessage({ nonce: kept.nonce, auth });
    channel.close();
    return undefined;
  }
  await take(mount, auth);
  return kept.to;
}
