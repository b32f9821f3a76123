// The chain of a device or of a file, verified here in the browser.
import * as en from '../../en/screens/audit.ts';
import { useEffect, useRef, useState } from 'preact/hooks';
import { openStream } from '../../lib/lines.ts';
import { useAction } from '../../lib/load.ts';
import { count } from '../../lib/time.ts';
import { startWorker } from '../../lib/workers.ts';
import type { Verdict } from '../../workers/audit.ts';
import { Button, Card, FormError, Note } from '../../parts/ui.tsx';
import { type AuditDevice } from './devices.ts';

/** Verifies a file that was chosen, or the lines that the server streams up to its head. */
export function Verify({ device }: { device: AuditDevice | undefined }) {
  const [verdict, setVerdict] = useState<Verdict | undefined>(undefined);
  const [busy, setBusy] = useState(false);
  const stop = useRef<() => void>(() => undefined);
  useEffect(() => () => stop.current(), []);
  /** `until` is the number of the last record to look at; a file is read to its end. */
  const run = async (
    stream: ReadableStream<Uint8Array<ArrayBuffer>>,
    until: number,
  ): Promise<void> => {
    stop.current();
    setBusy(true);
    setVerdict(undefined);
    const worker = startWorker('audit-worker');
    const reader = stream.getReader();
    let isOver = false;
    const end = (): void => {
      isOver = true;
      worker.terminate();
      void reader.cancel().catch(() => undefined);
      setBusy(false);
    };
    stop.current = end;
    worker.onmessage = (event: MessageEvent<Verdict>) => {
      const done = event.data.done || event.data.wrong !== undefined || event.data.last >= until;
      setVerdict({ ...event.data, done });
      if (done) end();
    };
    try {
      for (;;) {
        const { value, done } = await reader.read();
        if (isOver) return;
        if (value) {
          const buffer = value.slice().buffer;
          worker.postMessage({ chunk: buffer }, [buffer]);
        }
        if (done) {
          worker.postMessage({ last: true });
          return;
        }
      }
    } catch (error) {
      if (!isOver) {
        end();
        throw error;
      }
    }
  };
  const head = device?.head;
  const fromServer = useAction(async () => {
    if (!device || !head) return;
    const control = new AbortController();
    await run(
      await openStream(
        `sys/kallisto/audit/${device.name}/records`,
        { raw: true, follow: true, from_seq: 1 },
        control.signal,
      ),
      head.seq,
    );
    control.abort();
  });
  // The field is emptied, so that the same file can be chosen again after it changed.
  const fromFile = useAction((file: File) => run(file.stream(), Infinity));
  const meets =
    verdict?.done && head && !verdict.wrong
      ? verdict.last >= head.seq
        ? 'ok'
        : 'behind'
      : undefined;
  return (
    <Card title={en.verifyTheChain} pad>
      <p class="soft">{en.eachRecordHoldsTheHashOf}</p>
      {!globalThis.crypto?.subtle && (
        <Note kind="warn">
          {en.hashingNeedsHttpsOrLocalhostUse} <span class="mono">kallisto audit verify</span>{' '}
          {en.instead}
        </Note>
      )}
      <div class="row">
        <Button
          kind="primary"
          icon="check"
          busy={busy || fromServer.busy}
          disabled={!head || head.seq === 0}
          onClick={() => void fromServer.run()}
        >
          {en.verify(device ? device.name : en.aDevice)}
        </Button>
        <label class="btn">
          {en.verifyAFile}
          <input
            type="file"
            class="sr"
            onChange={(event) => {
              const file = event.currentTarget.files?.[0];
              event.currentTarget.value = '';
              if (file) void fromFile.run(file);
            }}
          />
        </label>
      </div>
      <FormError error={fromServer.error ?? fromFile.error} />
      {verdict &&
        (verdict.wrong ? (
          <Note kind="bad">
            <b>{en.theChainBreaksAtRecord(count(verdict.wrong.seq))}</b>{' '}
            {en.lineLinesBeforeItHold(
              count(verdict.wrong.line),
              verdict.wrong.why,
              count(verdict.lines - 1),
            )}
          </Note>
        ) : (
          <Note kind={verdict.done ? 'ok' : 'accent'}>
            <b>
              {verdict.done
                ? en.theChainHoldsTo(count(verdict.last))
                : en.linesSoFar(count(verdict.lines))}
            </b>
            {verdict.done && (
              <>
                {' '}
                {en.linesFromRecord(
                  count(verdict.lines),
                  count(verdict.first),
                  meets === 'ok'
                    ? en.itReachesTheHeadThatThe
                    : meets === 'behind'
                      ? en.theServerStatesTheLinesEnd(count(head?.seq ?? 0))
                      : '',
                )}
              </>
            )}
          </Note>
        ))}
      {head && (
        <dl class="kv">
          <dt>{en.head}</dt>
          <dd class="mono">
            {count(head.seq)} · {head.hash.slice(0, 16)}…
          </dd>
          {head.public_key && (
            <>
              <dt>{en.checkpointKey}</dt>
              <dd class="mono">{head.public_key.slice(0, 28)}…</dd>
            </>
          )}
        </dl>
      )}
    </Card>
  );
}
