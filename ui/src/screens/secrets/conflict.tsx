// When somebody was faster: base, theirs, mine. Keys that only one side touched are merged; for the others one chooses.
import * as en from '../../en/screens/secrets/conflict.ts';
import { useState } from 'preact/hooks';
import { asText, type Data, type Json } from '../../lib/json.ts';
import { plural, visible } from '../../lib/time.ts';
import { open, Sheet } from '../../parts/dialog.tsx';
import { Form } from '../../parts/form.tsx';
import { Button, Note, Tag } from '../../parts/ui.tsx';
import type { Merge } from './merge.ts';

function Resolve({
  merge,
  version,
  close,
}: {
  merge: Merge;
  version: number;
  close: (data?: Data) => void;
}) {
  const [chosen, setChosen] = useState<Record<string, 'theirs' | 'mine'>>({});
  const isReady = merge.clashes.every((clash) => chosen[clash.key]);
  const save = (): void => {
    const data: Data = { ...merge.merged };
    for (const clash of merge.clashes) {
      const value = chosen[clash.key] === 'mine' ? clash.mine : clash.theirs;
      if (value !== undefined) data[clash.key] = value;
    }
    close(data);
  };
  const show = (value: Json | undefined): string =>
    value === undefined ? 'removed' : visible(asText(value));
  return (
    <Form
      name="secret/conflict"
      onSubmit={() => {
        if (isReady) save();
      }}
    >
      <Sheet
        title={en.somebodySavedVersionMeanwhile(version)}
        actions={
          <>
            <Button onClick={() => close()}>{en.backToTheEdit}</Button>
            <Button kind="primary" type="submit" disabled={!isReady}>
              {en.saveOverVersion(version)}
            </Button>
          </>
        }
      >
        <Note kind="accent">
          {merge.fromThem.length > 0 ? (
            <>
              {en.thatOnlyTheyTouchedTakenOver(
                plural(merge.fromThem.length, en.key),
                merge.fromThem.length === 1 ? en.is : en.are,
              )}{' '}
              <span class="mono">{merge.fromThem.map(visible).join(', ')}</span>.
            </>
          ) : (
            en.theyTouchedNoKeyThatYou
          )}{' '}
          {merge.clashes.length === 0
            ? en.nothingClashesWithYours
            : en.changedOnBothSidesChoose(plural(merge.clashes.length, en.key))}
        </Note>
        {merge.clashes.map((clash) => (
          <fieldset class="clash" key={clash.key}>
            <legend class="mono">{visible(clash.key)}</legend>
            <p class="dim">
              {en.was} <span class="mono">{show(clash.base)}</span>
            </p>
            {(['theirs', 'mine'] as const).map((side) => (
              <label class="check">
                <input
                  type="radio"
                  name={`clash-${clash.key}`}
                  checked={chosen[clash.key] === side}
                  onChange={() => setChosen({ ...chosen, [clash.key]: side })}
                />
                <span>
                  <Tag>{side}</Tag> <span class="mono">{show(clash[side])}</span>
                </span>
              </label>
            ))}
          </fieldset>
        ))}
      </Sheet>
    </Form>
  );
}
export const resolveConflict = (merge: Merge, version: number): Promise<Data | undefined> =>
  open<Data>((close) => <Resolve merge={merge} version={version} close={close} />);
