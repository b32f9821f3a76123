// The table of an edit: a row for each key. Values are text unless somebody says that one is JSON, so `1.0` stays what it was.
import { useRef, useState } from 'preact/hooks';
import { tryCall } from '../../lib/api.ts';
import { JsonError, parseJson, writeJson, type Data } from '../../lib/json.ts';
import { kindOf } from '../../lib/kinds.ts';
import { toast } from '../../lib/toasts.ts';
import { Button, Card, Check, Field, Select, Tag } from '../../parts/ui.tsx';
import { open, Sheet } from '../../parts/dialog.tsx';
import { warningOf } from './keys.ts';

export interface Draft { id: number; key: string; text: string; isJson: boolean }
const FILE_MAX = 786_432;
let nextId = 100;

export const draftOf = (data: Data): Draft[] => Object.entries(data).map(([key, value]) => ({ id: nextId++, key, text: typeof value === 'string' ? value : writeJson(value), isJson: typeof value !== 'string' }));
const filled = (rows: readonly Draft[]): Draft[] => rows.filter((row) => row.key !== '' || row.text !== '');

/** What stands in the way of saving: the first of it. */
export function problemOf(rows: readonly Draft[]): string | undefined {
  const seen = new Set<string>();
  for (const row of filled(rows)) {
    if (row.key === '') return 'A value has no key.';
    if (seen.has(row.key)) return `The key ${row.key} stands twice.`;
    seen.add(row.key);
    if (row.isJson) { try { parseJson(row.text); } catch (error) { return `${row.key}: ${error instanceof JsonError ? error.message : 'no JSON'}`; } }
  }
  return undefined;
}
export const dataOf = (rows: readonly Draft[]): Data => Object.fromEntries(filled(rows).map((row) => [row.key, row.isJson ? parseJson(row.text) : row.text]));

function ValueBox({ row, onChange }: { row: Draft; onChange: (row: Draft) => void }) {
  const [isShown, setShown] = useState(row.text === '');
  const isLong = row.text.includes('\n') || row.text.length > 120;
  const box = { 'aria-label': `Value of ${row.key || 'the new key'}`, value: row.text, spellcheck: false, autocomplete: 'off' as const };
  return (
    <div class={`field value ${isLong ? 'area' : ''}`}>
      {isLong ? <textarea {...box} class={`mono ${isShown ? '' : 'masked'}`} rows={Math.min(8, row.text.split('\n').length + 1)} onInput={(event) => onChange({ ...row, text: event.currentTarget.value })} onFocus={() => setShown(true)} /> : <input {...box} class={`mono ${isShown ? '' : 'masked'}`} onInput={(event) => onChange({ ...row, text: event.currentTarget.value })} onKeyDown={(event) => { if (event.key === 'Enter' && event.shiftKey) { event.preventDefault(); onChange({ ...row, text: row.text + '\n' }); } }} />}
      <Button kind="ghost" size="sm" icon={isShown ? 'eyeoff' : 'eye'} label={isShown ? 'Hide what is typed' : 'Show what is typed'} onClick={() => setShown(!isShown)} />
    </div>
  );
}

export function RowEditor({ rows, setRows, parseLines }: { rows: Draft[]; setRows: (rows: Draft[]) => void; parseLines: (text: string) => [string, string][] | undefined }) {
  const box = useRef<HTMLDivElement>(null);
  const set = (row: Draft): void => setRows(rows.map((one) => (one.id === row.id ? row : one)));
  const add = (): void => { setRows([...rows, { id: nextId++, key: '', text: '', isJson: false }]); setTimeout(() => box.current?.querySelector<HTMLInputElement>('.erow:last-of-type input')?.focus()); };
  const onPaste = (event: ClipboardEvent, row: Draft): void => {
    const pairs = parseLines(event.clipboardData?.getData('text') ?? '');
    if (!pairs || (pairs.length < 2 && row.key !== '')) return;
    event.preventDefault();
    const made = pairs.map(([key, text]): Draft => ({ id: nextId++, key, text, isJson: false }));
    setRows([...rows.filter((one) => one.id !== row.id || one.key !== ''), ...made]);
    toast(`${made.length} keys pasted`);
  };
  const onDrop = async (event: DragEvent): Promise<void> => {
    event.preventDefault();
    const made: Draft[] = [];
    for (const file of event.dataTransfer?.files ?? []) {
      if (file.size > FILE_MAX) { toast(`${file.name} is too large for a secret`); continue; }
      const bytes = new Uint8Array(await file.arrayBuffer());
      let text: string;
      try { text = new TextDecoder('utf-8', { fatal: true }).decode(bytes); } catch { text = btoa(Array.from(bytes, (byte) => String.fromCharCode(byte)).join('')); toast(`${file.name} is no text: kept as base64`); }
      made.push({ id: nextId++, key: file.name, text, isJson: false });
    }
    if (made.length) setRows([...rows.filter((row) => row.key || row.text), ...made]);
  };
  return (
    <Card class="edit-card"><div ref={box} class="erows" onDragOver={(event) => event.preventDefault()} onDrop={(event) => void onDrop(event)}>
      <div class="ehead" aria-hidden="true"><span>Key</span><span>Value</span><span /></div>
      {rows.map((row, i) => {
        const warning = warningOf(row.key);
        const twice = row.key !== '' && rows.some((one) => one.id !== row.id && one.key === row.key);
        return (
          <div class="erow" key={row.id} role="group" aria-label={row.key || 'New key'}>
            <div><div class={`field ${twice ? 'wrong' : ''}`}><input class="mono" value={row.key} onInput={(event) => set({ ...row, key: event.currentTarget.value })} onPaste={(event) => onPaste(event, row)} aria-label="Key" placeholder="KEY" spellcheck={false} autocomplete="off" autofocus={i === 0 && rows.length === 1} /></div>{twice && <p class="err">stands twice</p>}{warning && <p class="err">{warning}</p>}</div>
            <div><ValueBox row={row} onChange={set} />{row.isJson && <p class="dim hint"><Tag>{(() => { try { return kindOf(parseJson(row.text))?.label ?? 'JSON'; } catch { return 'JSON'; } })()}</Tag> kept as JSON</p>}</div>
            <span class="cell-acts"><Button kind="ghost" icon="wand" label={`Generate a value for ${row.key || 'this key'}`} onClick={() => void generate().then((text) => { if (text) set({ ...row, text, isJson: false }); })} /><Button kind="ghost" label={row.isJson ? 'Take the value as text' : 'Take the value as JSON'} pressed={row.isJson} onClick={() => set({ ...row, isJson: !row.isJson })}><span class="mono">{'{}'}</span></Button><Button kind="ghost" icon="trash" label={`Remove ${row.key || 'this key'}`} onClick={() => setRows(rows.filter((one) => one.id !== row.id))} /></span>
          </div>
        );
      })}
      <div class="eadd"><Button icon="plus" onClick={add}>Another key</Button><span class="dim">Paste lines of <span class="mono">A=b</span>, or drop files here.</span></div>
    </div></Card>
  );
}

function Generate({ close }: { close: (text?: string) => void }) {
  const [how, setHow] = useState<'random' | 'policy'>('random');
  const [length, setLength] = useState('32');
  const [policy, setPolicy] = useState('');
  const [isHex, setHex] = useState(false);
  const [error, setError] = useState('');
  const run = async (event: Event): Promise<void> => {
    event.preventDefault();
    if (how === 'policy') {
      const reply = await tryCall<{ password: string }>('GET', `sys/policies/password/${policy}/generate`);
      return reply ? close(reply.data.password) : setError('There is no such password policy, or you may not use it.');
    }
    const count = Math.min(1024, Math.max(8, Number(length) || 32));
    const reply = await tryCall<{ random_bytes: string }>('POST', `sys/tools/random/${count}`, { body: { format: isHex ? 'hex' : 'base64' } });
    // Without the right to the server's source the browser's is as good.
    const bytes = crypto.getRandomValues(new Uint8Array(count));
    close(reply?.data.random_bytes ?? (isHex ? Array.from(bytes, (byte) => byte.toString(16).padStart(2, '0')).join('') : btoa(Array.from(bytes, (byte) => String.fromCharCode(byte)).join(''))));
  };
  return <form onSubmit={(event) => void run(event)}><Sheet title="Generate a value" actions={<><Button onClick={() => close()}>Cancel</Button><Button kind="primary" type="submit" icon="wand">Generate</Button></>}><Select label="How" value={how} options={[['random', 'Random bytes'], ['policy', 'By a password policy']]} onChange={setHow} />{how === 'random' ? <><Field label="Bytes" type="number" min={8} value={length} onInput={setLength} /><Check label="As hexadecimal" checked={isHex} onChange={setHex} /></> : <Field label="Password policy" value={policy} onInput={setPolicy} mono required error={error || undefined} />}</Sheet></form>;
}
const generate = (): Promise<string | undefined> => open<string>((close) => <Generate close={close} />);
