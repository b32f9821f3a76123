// When somebody was faster: base, theirs, mine. Keys that only one side touched are merged; for the others one chooses.
import { useState } from 'preact/hooks';
import { asText, type Data, type Json } from '../../lib/json.ts';
import { plural, visible } from '../../lib/time.ts';
import { open, Sheet } from '../../parts/dialog.tsx';
import { Button, Note, Tag } from '../../parts/ui.tsx';
import type { Merge } from './merge.ts';

function Resolve({ merge, version, close }: { merge: Merge; version: number; close: (data?: Data) => void }) {
  const [chosen, setChosen] = useState<Record<string, 'theirs' | 'mine'>>({});
  const isReady = merge.clashes.every((clash) => chosen[clash.key]);
  const save = (): void => {
    const data: Data = { ...merge.merged };
    for (const clash of merge.clashes) { const value = chosen[clash.key] === 'mine' ? clash.mine : clash.theirs; if (value !== undefined) data[clash.key] = value; }
    close(data);
  };
  const show = (value: Json | undefined): string => (value === undefined ? 'removed' : visible(asText(value)));
  return (
    <form onSubmit={(event) => { event.preventDefault(); if (isReady) save(); }}>
      <Sheet title={`Somebody saved version ${version} meanwhile`} actions={<><Button onClick={() => close()}>Back to the edit</Button><Button kind="primary" type="submit" disabled={!isReady}>Save over version {version}</Button></>}>
        <Note kind="accent">{merge.fromThem.length > 0 ? <>{plural(merge.fromThem.length, 'key')} that only they touched {merge.fromThem.length === 1 ? 'is' : 'are'} taken over: <span class="mono">{merge.fromThem.map(visible).join(', ')}</span>.</> : 'They touched no key that you did not.'} {merge.clashes.length === 0 ? 'Nothing clashes with yours.' : `${plural(merge.clashes.length, 'key')} changed on both sides: choose.`}</Note>
        {merge.clashes.map((clash) => <fieldset class="clash" key={clash.key}><legend class="mono">{visible(clash.key)}</legend><p class="dim">was <span class="mono">{show(clash.base)}</span></p>{(['theirs', 'mine'] as const).map((side) => <label class="check"><input type="radio" name={`clash-${clash.key}`} checked={chosen[clash.key] === side} onChange={() => setChosen({ ...chosen, [clash.key]: side })} /><span><Tag>{side}</Tag> <span class="mono">{show(clash[side])}</span></span></label>)}</fieldset>)}
      </Sheet>
    </form>
  );
}
export const resolveConflict = (merge: Merge, version: number): Promise<Data | undefined> => open<Data>((close) => <Resolve merge={merge} version={version} close={close} />);
