// The one way to the server: every request of the page goes through `call`.
//
// It adds token, namespace and intent, reads Vault's envelope, waits as `Retry-After` says, retries what is safe to retry, and turns every refusal into
// an `ApiError` with the server's words and the request id. Nothing else in the page calls `fetch` for the API.
import * as en from '../en/lib/api.ts';
import { parseJson, type Json } from './json.ts';
import { addressFault } from './paths.ts';
import { me, namespace, onSealed, onTokenEnd, server, serverNote, token } from './state.ts';

export type Method = 'GET' | 'POST' | 'PUT' | 'PATCH' | 'DELETE' | 'LIST';
/** Why a value is read: goes into the audit log (contract E8). */
export type Intent = 'reveal' | 'copy' | 'edit' | 'diff' | 'export';

export interface Options {
  body?: unknown;
  /** Text that is sent as it is, for JSON whose numbers have to stay as they were written. */
  text?: string;
  query?: Record<string, string | number | boolean | undefined>;
  /** Another token than the session's; '' for none. */
  token?: string;
  ns?: string;
  intent?: Intent;
  wrapTtl?: string;
  headers?: Record<string, string>;
  signal?: AbortSignal;
  /** Leaves numbers of `data` as they were written (`lib/json`). */
  exact?: boolean;
  /** Does not lead to the unseal page, nor end the session. */
  quiet?: boolean;
}

export interface Reply<T = Record<string, unknown>> {
  status: number;
  data: T;
  /** The whole body. */
  body: Record<string, unknown>;
  auth?: Auth;
  wrap?: { token: string; accessor: string; ttl: number; creation_time: string };
  warnings: string[];
  requestId: string;
  etag: string | null;
  index: string | null;
}

export interface Auth {
  client_token: string;
  accessor: string;
  policies: string[];
  lease_duration: number;
  renewable: boolean;
  entity_id: string;
  metadata: Record<string, string> | null;
  /** In the place of a token: what else the login asks for. */
  mfa_requirement?: MfaRequirement;
}

export interface MfaRequirement {
  mfa_request_id: string;
  mfa_constraints: Record<
    string,
    { any: { type: string; id: string; uses_passcode: boolean; name?: string }[] }
  >;
}

/** A refusal, in the server's words. */
export class ApiError extends Error {
  constructor(
    readonly status: number,
    readonly errors: string[],
    readonly method: string,
    readonly path: string,
    readonly requestId = '',
    readonly body: Record<string, unknown> = {},
  ) {
    super(errors.join('; ') || words(status));
  }
  get isSealed(): boolean {
    return this.status === 503 && this.errors.some((text) => /sealed/i.test(text));
  }
}

function words(status: number): string {
  switch (status) {
    case 0:
      return en.theServerCannotBeReached;
    case 403:
      return en.permissionDenied;
    case 404:
      return en.thereIsNothingAtThisPath;
    case 429:
      return en.tooManyRequests;
    case 503:
      return en.theServerCannotAnswerNow;
    default:
      return en.theServerAnswered(status);
  }
}

/** A path with its segments percent-encoded, as it stands in an address. Throws the server's refusal where the browser would make another path of it. */
export function encodePath(path: string): string {
  const fault = addressFault(path);
  if (fault !== undefined) throw new ApiError(400, [fault], '', path);
  return path.split('/').map(encodeURIComponent).join('/');
}

/** Told of each request; the frame sets it (`lib/asked`). */
export const onAsk: { run?: (method: Method, path: string, options: Options) => void } = {};

/** Refusals with 503 after which the same request is not sent again. */
const IS_FINAL = /may have happened|disk is full/;
const RETRIES_MAX = 6;
const WAIT_MS_MAX = 10_000;

/** What a `Retry-After` asks for: seconds, or a time (RFC 9110, 10.2.3), as proxies send it; 0 for none. */
export function secondsToWait(header: string | null, nowMs: number): number {
  const seconds = Number(header);
  const wait = Number.isNaN(seconds) ? (Date.parse(header ?? '') - nowMs) / 1000 : seconds;
  return wait > 0 ? wait : 0;
}

const pause = (ms: number, signal?: AbortSignal): Promise<void> =>
  new Promise((resolve, reject) => {
    const timer = setTimeout(resolve, ms);
    signal?.addEventListener(
      'abort',
      () => {
        clearTimeout(timer);
        reject(signal.reason);
      },
      { once: true },
    );
  });

/** The headers of a request, for `call` and for streams. */
export function headersOf(options: Options): Record<string, string> {
  const headers: Record<string, string> = { 'X-Vault-Request': 'true', ...options.headers };
  const sent = options.token ?? token.peek();
  if (sent) headers['X-Vault-Token'] = sent;
  const ns = options.ns ?? namespace.peek();
  if (ns) headers['X-Vault-Namespace'] = ns;
  if (options.intent) headers['X-Kallisto-Intent'] = options.intent;
  if (options.wrapTtl) headers['X-Vault-Wrap-TTL'] = options.wrapTtl;
  return headers;
}

export function urlOf(path: string, query?: Options['query']): string {
  const pairs = Object.entries(query ?? {}).filter(
    (pair): pair is [string, string | number | boolean] => pair[1] !== undefined,
  );
  const text = new URLSearchParams(pairs.map(([key, value]) => [key, String(value)])).toString();
  return `/v1/${encodePath(path)}${text && '?' + text}`;
}

/** Sends a request; `path` is unencoded and below `/v1/`. */
export async function call<T = Record<string, any>>(
  method: Method,
  path: string,
  options: Options = {},
): Promise<Reply<T>> {
  const isRead = method === 'GET' || method === 'LIST';
  const text =
    options.text ?? (options.body === undefined ? undefined : JSON.stringify(options.body));
  const headers = headersOf(options);
  const url = urlOf(path, options.query);
  onAsk.run?.(method, path, options);
  if (text !== undefined)
    headers['Content-Type'] =
      method === 'PATCH' ? 'application/merge-patch+json' : 'application/json';
  for (let attempt = 0; ; attempt += 1) {
    let response: Response;
    let reply: Reply<T>;
    try {
      response = await fetch(url, {
        method,
        headers,
        body: text,
        signal: options.signal,
        cache: 'no-store',
        credentials: 'omit',
        redirect: 'error',
      });
      // An answer that is cut in the middle is none.
      reply = await read<T>(response, options.exact ?? false);
    } catch (error) {
      if (options.signal?.aborted) throw error;
      if (isRead && attempt < 2) {
        serverNote.value = en.theServerDoesNotAnswerTrying;
        await pause(400 * (attempt + 1), options.signal);
        continue;
      }
      serverNote.value = '';
      if (server.peek().ok) server.value = { ...server.peek(), ok: false };
      throw new ApiError(0, [], method, path);
    }
    if (!server.peek().ok) server.value = { ...server.peek(), ok: true };
    if (response.ok) {
      serverNote.value = '';
      return reply;
    }
    const errors = Array.isArray(reply.body['errors'])
      ? (reply.body['errors'] as unknown[]).map(String)
      : [];
    const error = new ApiError(response.status, errors, method, path, reply.requestId, reply.body);
    if (error.isSealed) {
      if (!options.quiet) onSealed.value?.();
      throw error;
    }
    // A server that is behind, has no leader just now or too much to do did nothing with the request. What may have happened is not sent twice, and a disk stays full.
    const comesAgain =
      response.status === 412 ||
      response.status === 429 ||
      (response.status === 503 && errors.length > 0 && !IS_FINAL.test(error.message));
    const after = secondsToWait(response.headers.get('Retry-After'), Date.now());
    // A longer wait is for a person to decide on; coming earlier than the server says would be refused.
    if (comesAgain && attempt < RETRIES_MAX && !options.quiet && after * 1000 <= WAIT_MS_MAX) {
      const wait = after > 0 ? after * 1000 : Math.min(250 * 2 ** attempt, WAIT_MS_MAX);
      serverNote.value =
        response.status === 429
          ? en.tooManyRequestsGoingOnIn(Math.ceil(wait / 1000))
          : response.status === 412
            ? en.waitingForThisServerToCatch
            : /no server leads|leader/i.test(error.message)
              ? en.theClusterIsChoosingALeader
              : en.tryingAgain(error.message);
      await pause(wait, options.signal);
      continue;
    }
    serverNote.value = '';
    if (response.status === 403 && !options.quiet && options.token === undefined && token.peek())
      await isTokenGone(path);
    throw error;
  }
}

/** After a refusal: whether the token itself has ended, which is another matter than a missing right. */
async function isTokenGone(path: string): Promise<void> {
  if (path === 'auth/token/lookup-self') return;
  try {
    const response = await fetch('/v1/auth/token/lookup-self', {
      headers: headersOf({ ns: '' }),
      cache: 'no-store',
      credentials: 'omit',
    });
    // A session that could look at itself when it began, and cannot now, has ended: the server tells no more than that.
    if (response.status === 403 && me.peek()?.path) onTokenEnd.value?.();
  } catch {
    /* The next request says what is wrong. */
  }
}

async function read<T>(response: Response, exact: boolean): Promise<Reply<T>> {
  const text = await response.text();
  let body: Record<string, any> = {};
  if (text && (response.headers.get('Content-Type') ?? '').includes('json')) {
    try {
      const parsed: Json | unknown = exact ? parseJson(text) : JSON.parse(text);
      if (parsed !== null && typeof parsed === 'object') body = parsed as Record<string, any>;
    } catch {
      /* Not of this API: a proxy's page. The status says enough. */
    }
  } else if (text) {
    body = { text };
  }
  return {
    status: response.status,
    data: (body['data'] ?? {}) as T,
    body,
    auth: body['auth'] ?? undefined,
    wrap: body['wrap_info'] ?? undefined,
    warnings: body['warnings'] ?? [],
    requestId: typeof body['request_id'] === 'string' ? body['request_id'] : '',
    etag: response.headers.get('ETag'),
    index: response.headers.get('X-Kallisto-Index'),
  };
}

/** The same, with `undefined` for what is not there or not allowed. */
export async function tryCall<T = Record<string, any>>(
  method: Method,
  path: string,
  options: Options = {},
): Promise<Reply<T> | undefined> {
  try {
    return await call<T>(method, path, { quiet: true, ...options });
  } catch (error) {
    if (error instanceof ApiError) return undefined;
    throw error;
  }
}
