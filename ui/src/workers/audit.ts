// Verifies an audit chain away from the page, so that the server need not be believed (docs/format.md, audit chain).
//
// Each line holds its number, the hash of the line before and its own: SHA-256 over the line from its first byte to the last digit of `prev`.
// Lines come as chunks of bytes; progress goes back, and the first place that does not hold.
import * as en from '../en/workers/audit.ts';
export interface Verdict {
  lines: number;
  first: number;
  last: number;
  hash: string;
  wrong?: { line: number; seq: number; why: string } | undefined;
  done: boolean;
}

const PREV = ',"prev":"';
const CHAIN = ',"chain":{"seq":';
const LINE_MAX = 8 * 1024 * 1024;
const PROGRESS = 2000;

let rest = new Uint8Array(0);
let state: Verdict = { lines: 0, first: 0, last: 0, hash: '', done: false };
let queue: Promise<void> = Promise.resolve();
const text = new TextDecoder();
const hex = (bytes: ArrayBuffer): string =>
  Array.from(new Uint8Array(bytes), (byte) => byte.toString(16).padStart(2, '0')).join('');

async function line(bytes: Uint8Array<ArrayBuffer>): Promise<void> {
  if (state.wrong || bytes.length === 0) return;
  state.lines += 1;
  const fail = (why: string, seq = state.last + 1): void => {
    state.wrong = { line: state.lines, seq, why };
  };
  const tail = text.decode(bytes.subarray(Math.max(0, bytes.length - 300)));
  const found = /,"chain":\{"seq":(\d+),"prev":"([0-9a-f]{64})","hash":"([0-9a-f]{64})"\}\}$/.exec(
    tail,
  );
  if (!found?.[1] || !found[2] || !found[3]) return fail(en.thisIsNoLineOfA);
  const [, number, prev, hash] = found;
  const seq = Number(number);
  // The hashed span ends behind the last digit of `prev`.
  const covered = bytes.length - `","hash":"${hash}"}}`.length;
  const own = hex(await crypto.subtle.digest('SHA-256', bytes.slice(0, covered)));
  if (own !== hash) return fail(en.theLineWasChangedItDoes, seq);
  if (state.first === 0) state.first = seq;
  else if (seq !== state.last + 1) return fail(en.aLineIsMissingOrMoved(seq, state.last), seq);
  else if (prev !== state.hash) return fail(en.itDoesNotFollowTheLine, seq);
  state.last = seq;
  state.hash = hash;
}

async function take(chunk: Uint8Array<ArrayBuffer>, isLast: boolean): Promise<void> {
  const joined = new Uint8Array(rest.length + chunk.length);
  joined.set(rest);
  joined.set(chunk, rest.length);
  let from = 0;
  for (let end = joined.indexOf(10, from); end >= 0; end = joined.indexOf(10, from)) {
    await line(joined.subarray(from, end));
    from = end + 1;
    if (state.lines % PROGRESS === 0) self.postMessage(state);
  }
  rest = joined.slice(from);
  if (rest.length > LINE_MAX)
    state.wrong = { line: state.lines + 1, seq: state.last + 1, why: en.aLineIsLongerThan8 };
  // A file may end within a line that is being written.
  if (isLast) {
    if (
      rest.length > 0 &&
      text.decode(rest).includes(CHAIN) &&
      text.decode(rest).includes(PREV) &&
      text.decode(rest).endsWith('}}')
    )
      await line(rest);
    state = { ...state, done: true };
  }
  self.postMessage(state);
}

self.onmessage = (event: MessageEvent<{ chunk?: ArrayBuffer; last?: boolean }>) => {
  queue = queue.then(() =>
    take(new Uint8Array(event.data.chunk ?? new ArrayBuffer(0)), event.data.last ?? false),
  );
};
