// The builder: rules as rows, which writes the same text as one would by hand. It begins with what the server read in the text.
import * as common from '../../en/common.ts';
import * as en from '../../en/screens/policies/builder.ts';
import { useEffect, useState } from 'preact/hooks';
import { allMounts } from '../../lib/place.ts';
import { Button, Field, Note } from '../../parts/ui.tsx';

const CAPS = ['create', 'read', 'update', 'patch', 'delete', 'list', 'sudo', 'deny'] as const;
interface Row { pattern: string; capabilities: string[] }
export const textOf = (rows: readonly Row[]): string => rows.map((row) => `path ${JSON.stringify(row.pattern)} {\n  capabilities = [${row.capabilities.map((cap) => JSON.stringify(cap)).join(', ')}]\n}`).join('\n') + '\n';

export function Builder({ rules, onText }: { rules: Row[]; onText: (text: string) => void }) {
  const [rows, setRows] = useState<Row[]>(() => rules.map(({ pattern, capabilities }) => ({ pattern, capabilities: [...capabilities] })));
  const [known, setKnown] = useState<string[]>([]);
  useEffect(() => { void allMounts().then(({ secret }) => setKnown(secret.flatMap((mount) => (mount.version === 2 ? [`${mount.path}data/*`, `${mount.path}metadata/*`, `${mount.path}subkeys/*`] : [`${mount.path}*`]))), () => undefined); }, []);
  const set = (next: Row[]): void => { setRows(next); onText(textOf(next)); };
  return (
    <div class="pad stack grow scroll-y">
      <Note>{en.rowsWriteTheTextAnewComments}</Note>
      {rows.map((row, i) => <fieldset class="clash" key={i}><legend>{en.rule(i + 1)}</legend><div class="row"><div class="grow"><Field label={common.path} value={row.pattern} onInput={(pattern) => set(rows.map((one, at) => (at === i ? { ...one, pattern } : one)))} mono list={known} /></div><Button kind="ghost" icon="trash" label={en.removeRule(i + 1)} onClick={() => set(rows.filter((_, at) => at !== i))} /></div>
        <div class="row">{CAPS.map((cap) => <label class="check"><input type="checkbox" checked={row.capabilities.includes(cap)} onChange={(event) => { const on = event.currentTarget.checked; set(rows.map((one, at) => (at === i ? { ...one, capabilities: on ? [...one.capabilities, cap] : one.capabilities.filter((other) => other !== cap) } : one))); }} /><span>{cap}</span></label>)}</div></fieldset>)}
      <div><Button icon="plus" onClick={() => set([...rows, { pattern: '', capabilities: ['read'] }])}>{en.anotherRule}</Button></div>
    </div>
  );
}
