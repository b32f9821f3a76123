// The server's log, as it comes (`sys/monitor`): level, filter, pause, download. It ends at seal and with the token.
import * as common from '../en/common.ts';
import * as en from '../en/screens/log.ts';
import { useEffect, useRef, useState } from 'preact/hooks';
import { headersOf, urlOf } from '../lib/api.ts';
import { download } from '../lib/download.ts';
import { token } from '../lib/state.ts';
import { visible } from '../lib/time.ts';
import { Button, Card, Field, Note, Page, Select } from '../parts/ui.tsx';

const LINES_MAX = 2000;
type Level = 'debug' | 'info' | 'warn' | 'error';

export function Log() {
  const [lines, setLines] = useState<string[]>([]);
  const [level, setLevel] = useState<Level>('info');
  const [text, setText] = useState('');
  const [isPaused, setPaused] = useState(false);
  const [end, setEnd] = useState('');
  const paused = useRef(false);
  paused.current = isPaused;
  useEffect(() => {
    const stop = new AbortController();
    setEnd('');
    const run = async (): Promise<void> => {
      const response = await fetch(urlOf('sys/monitor', { log_level: level }), {
        headers: headersOf({}),
        signal: stop.signal,
        cache: 'no-store',
        credentials: 'omit',
      });
      if (!response.ok || !response.body) {
        setEnd(
          response.status === 403
            ? en.thisNeedsReadAndSudoOn
            : en.theServerAnswered(response.status),
        );
        return;
      }
      const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
      let rest = '';
      for (;;) {
        const { value, done } = await reader.read();
        if (done) {
          setEnd(en.theStreamHasEndedTheServer);
          return;
        }
        const parts = (rest + value).split('\n');
        rest = parts.pop() ?? '';
        if (!paused.current && parts.length > 0)
          setLines((old) => [...old, ...parts].slice(-LINES_MAX));
      }
    };
    if (token.peek())
      run().catch((error: unknown) => {
        if (!stop.signal.aborted) setEnd(String(error));
      });
    return () => stop.abort();
  }, [level]);
  const shown = text
    ? lines.filter((line) => line.toLowerCase().includes(text.toLowerCase()))
    : lines;
  return (
    <Page
      title={en.log}
      sub={en.eventsOfThisServerFromNow}
      actions={
        <>
          <Button icon={isPaused ? 'play' : 'pause'} onClick={() => setPaused(!isPaused)}>
            {isPaused ? common.goOn : en.pause}
          </Button>
          <Button
            icon="dl"
            onClick={() => download('kallisto.log', lines.join('\n'), 'text/plain')}
          >
            {common.download}
          </Button>
        </>
      }
    >
      <div class="row">
        <Select
          label={en.level}
          value={level}
          onChange={setLevel}
          options={[
            ['debug', en.debug],
            ['info', en.info],
            ['warn', en.warn],
            ['error', en.error],
          ]}
        />
        <div class="grow">
          <Field label={common.filter} value={text} onInput={setText} />
        </div>
      </div>
      {end && <Note kind="warn">{end}</Note>}
      <Card>
        <div class="log-lines mono" tabIndex={0} role="log" aria-label={en.log}>
          {shown.length === 0 ? (
            <span class="dim">{en.nothingHappenedYet}</span>
          ) : (
            shown
              .slice(-500)
              .map((line) => visible(line) + '\n')
              .join('')
          )}
        </div>
      </Card>
    </Page>
  );
}
