// The table of an edit: a row for each key. Values are text unless somebody says that one is JSON, so `1.0` stays what it was.
import * as common from '../../en/common.ts';
import * as en from '../../en/screens/secrets/rows.ts';
import { useRef, useState } from 'preact/hooks';
import { tryCall } from '../../lib/api.ts';
import { textOfFile } from '../../lib/download.ts';
import { JsonError, parseJson, writeJson, type Data } from '../../lib/json.ts';
import { kindOf } from '../../lib/kinds.ts';
import { toast } from '../../lib/toasts.ts';
import { Form } from '../../parts/form.tsx';
import { useLines } from '../../parts/lines.ts';
import { Button, Card, Check, Field, Select, Tag } from '../../parts/ui.tsx';
import { open, Sheet } from '../../parts/dialog.tsx';
import { warningOf } from './keys.ts';

export interface Draft {
  id: number;
  key: string;
  text: string;
  isJson: boolean;
  /** The secret has this key, which is the empty one. */
  isNameless?: boolean;
}
const FILE_MAX = 786_432;
let nextId = 100;

export const draftOf = (data: Data): Draft[] =>
  Object.entries(data).map(([key, value]) => ({
    id: nextId++,
    key,
    text: typeof value === 'string' ? value : writeJson(value),
    isJson: typeof value !== 'string',
    isNameless: key === '',
  }));
const filled = (rows: readonly Draft[]): Draft[] =>
  rows.filter((row) => row.key !== '' || row.text !== '' || row.isNameless);

/** What stands in the way of saving: the first of it. */
export function problemOf(rows: readonly Draft[]): string | undefined {
  const seen = new Set<string>();
  for (const row of filled(rows)) {
    if (row.key === '' && !row.isNameless) return en.aValueHasNoKey;
    if (seen.has(row.key)) return en.theKeyStandsTwice(row.key);
    seen.add(row.key);
    if (row.isJson) {
      try {
        parseJson(row.text);
      } catch (error) {
        return `${row.key}: ${error instanceof JsonError ? error.message : en.noJson}`;
      }
    }
  }
  return undefined;
}
export const dataOf = (rows: readonly Draft[]): Data =>
  Object.fromEntries(
    filled(rows).map((row) => [row.key, row.isJson ? parseJson(row.text) : row.text]),
  );

const LINE_MAX = 120;

/** A value: a line, or an area from the moment it needs one. */
function ValueBox({ row, onChange }: { row: Draft; onChange: (row: Draft) => void }) {
  const [isShown, setShown] = useState(row.text === '');
  const lines = useLines(
    row.text,
    (text) => onChange({ ...row, text }),
    (text) => text.length > LINE_MAX,
  );
  const box = {
    'aria-label': en.valueOf(row.key || en.theNewKey),
    value: row.text,
    spellcheck: false,
    autocomplete: 'off' as const,
  };
  return (
    <div class={`field value ${lines.isArea ? 'area' : ''}`} ref={lines.box}>
      {lines.isArea ? (
        <textarea
          {...box}
          class={`mono ${isShown ? '' : 'masked'}`}
          rows={Math.min(8, row.text.split('\n').length + 1)}
          onInput={(event) => onChange({ ...row, text: event.currentTarget.value })}
          onFocus={() => setShown(true)}
        />
      ) : (
        <input
          {...box}
          class={`mono ${isShown ? '' : 'masked'}`}
          onInput={(event) => lines.onInput(event.currentTarget)}
          onPaste={lines.onPaste}
          onKeyDown={(event) => {
            if (event.key !== 'Enter' || !event.shiftKey) return;
            event.preventDefault();
            lines.insert(event.currentTarget, '\n');
          }}
        />
      )}
      <Button
        kind="ghost"
        size="sm"
        icon={isShown ? 'eyeoff' : 'eye'}
        label={isShown ? en.hideWhatIsTyped : en.showWhatIsTyped}
        onClick={() => setShown(!isShown)}
      />
    </div>
  );
}

export function RowEditor({
  rows,
  setRows,
  parseLines,
}: {
  rows: Draft[];
  setRows: (rows: Draft[]) => void;
  parseLines: (text: string) => [string, string][] | undefined;
}) {
  const box = useRef<HTMLDivElement>(null);
  const set = (row: Draft): void => setRows(rows.map((one) => (one.id === row.id ? row : one)));
  const add = (): void => {
    setRows([...rows, { id: nextId++, key: '', text: '', isJson: false }]);
    setTimeout(() =>
      box.current?.querySelector<HTMLInputElement>('.erow:last-of-type input')?.focus(),
    );
  };
  const onPaste = (event: ClipboardEvent, row: Draft): void => {
    const pairs = parseLines(event.clipboardData?.getData('text') ?? '');
    if (!pairs || (pairs.length < 2 && row.key !== '')) return;
    event.preventDefault();
    const made = pairs.map(([key, text]): Draft => ({ id: nextId++, key, text, isJson: false }));
    setRows([...rows.filter((one) => one.id !== row.id || one.key !== ''), ...made]);
    toast(en.keysPasted(made.length));
  };
  const onDrop = async (event: DragEvent): Promise<void> => {
    event.preventDefault();
    const made: Draft[] = [];
    for (const file of event.dataTransfer?.files ?? []) {
      if (file.size > FILE_MAX) {
        toast(en.isTooLargeForASecret(file.name));
        continue;
      }
      const { text, isText } = await textOfFile(file);
      if (!isText) toast(en.isNoTextKeptAsBase64(file.name));
      made.push({ id: nextId++, key: file.name, text, isJson: false });
    }
    if (made.length) setRows([...rows.filter((row) => row.key || row.text), ...made]);
  };
  return (
    <Card class="edit-card">
      <div
        ref={box}
        class="erows"
        onDragOver={(event) => event.preventDefault()}
        onDrop={(event) => void onDrop(event)}
      >
        <div class="ehead" aria-hidden="true">
          <span>{common.key}</span>
          <span>{common.value}</span>
          <span />
        </div>
        {rows.map((row, i) => {
          const warning = warningOf(row.key);
          const twice =
            row.key !== '' && rows.some((one) => one.id !== row.id && one.key === row.key);
          return (
            <div class="erow" key={row.id} role="group" aria-label={row.key || en.newKey}>
              <div>
                <div class={`field ${twice ? 'wrong' : ''}`}>
                  <input
                    class="mono"
                    value={row.key}
                    onInput={(event) => set({ ...row, key: event.currentTarget.value })}
                    onPaste={(event) => onPaste(event, row)}
                    aria-label={common.key}
                    placeholder={row.isNameless ? en.empty : en.key}
                    spellcheck={false}
                    autocomplete="off"
                    autofocus={i === 0 && rows.length === 1}
                  />
                </div>
                {twice && <p class="err">{en.standsTwice}</p>}
                {warning && <p class="err">{warning}</p>}
              </div>
              <div>
                <ValueBox row={row} onChange={set} />
                {row.isJson && (
                  <p class="dim hint">
                    <Tag>
                      {(() => {
                        try {
                          return kindOf(parseJson(row.text))?.label ?? 'JSON';
                        } catch {
                          return 'JSON';
                        }
                      })()}
                    </Tag>{' '}
                    {en.keptAsJson}
                  </p>
                )}
              </div>
              <span class="cell-acts">
                <Button
                  kind="ghost"
                  icon="wand"
                  label={en.generateAValueFor(row.key || en.thisKey)}
                  onClick={() =>
                    void generate().then((text) => {
                      if (text) set({ ...row, text, isJson: false });
                    })
                  }
                />
                <Button
                  kind="ghost"
                  label={row.isJson ? en.takeTheValueAsText : en.takeTheValueAsJson}
                  pressed={row.isJson}
                  onClick={() => set({ ...row, isJson: !row.isJson })}
                >
                  <span class="mono">{'{}'}</span>
                </Button>
                <Button
                  kind="ghost"
                  icon="trash"
                  label={en.remove(row.key || en.thisKey)}
                  onClick={() => setRows(rows.filter((one) => one.id !== row.id))}
                />
              </span>
            </div>
          );
        })}
        <div class="eadd">
          <Button icon="plus" onClick={add}>
            {en.anotherKey}
          </Button>
          <span class="dim">
            {en.pasteLinesOf} <span class="mono">A=b</span>
            {en.orDropFilesHere}
          </span>
        </div>
      </div>
    </Card>
  );
}

function Generate({ close }: { close: (text?: string) => void }) {
  const [how, setHow] = useState<'random' | 'policy'>('random');
  const [length, setLength] = useState('32');
  const [policy, setPolicy] = useState('');
  const [isHex, setHex] = useState(false);
  const [error, setError] = useState('');
  const run = async (): Promise<void> => {
    if (how === 'policy') {
      const reply = await tryCall<{ password: string }>(
        'GET',
        `sys/policies/password/${policy}/generate`,
      );
      return reply ? close(reply.data.password) : setError(en.thereIsNoSuchPasswordPolicy);
    }
    const count = Math.min(1024, Math.max(8, Number(length) || 32));
    const reply = await tryCall<{ random_bytes: string }>('POST', `sys/tools/random/${count}`, {
      body: { format: isHex ? 'hex' : 'base64' },
    });
    // Without the right to the server's source the browser's is as good.
    const bytes = crypto.getRandomValues(new Uint8Array(count));
    close(
      reply?.data.random_bytes ??
        (isHex
          ? Array.from(bytes, (byte) => byte.toString(16).padStart(2, '0')).join('')
          : btoa(Array.from(bytes, (byte) => String.fromCharCode(byte)).join(''))),
    );
  };
  return (
    <Form name="secret/generate" onSubmit={run}>
      <Sheet
        title={en.generateAValue}
        actions={
          <>
            <Button onClick={() => close()}>{common.cancel}</Button>
            <Button kind="primary" type="submit" icon="wand">
              {en.generate}
            </Button>
          </>
        }
      >
        <Select
          label={en.how}
          value={how}
          options={[
            ['random', en.randomBytes],
            ['policy', en.byAPasswordPolicy],
          ]}
          onChange={setHow}
        />
        {how === 'random' ? (
          <>
            <Field label={en.bytes} type="number" min={8} value={length} onInput={setLength} />
            <Check label={en.asHexadecimal} checked={isHex} onChange={setHex} />
          </>
        ) : (
          <Field
            label={en.passwordPolicy}
            value={policy}
            onInput={setPolicy}
            mono
            required
            error={error || undefined}
          />
        )}
      </Sheet>
    </Form>
  );
}
const generate = (): Promise<string | undefined> =>
  open<string>((close) => <Generate close={close} />);
