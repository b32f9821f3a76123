// The builder: rules as rows, which writes the same text as one would by hand. It begins with what the server read in the text.
import * as common from '../../en/common.ts';
import * as en from '../../en/screens/policies/builder.ts';
import { useEffect, useState } from 'preact/hooks';
import { call } from '../../lib/api.ts';
import { allMounts } from '../../lib/place.ts';
import { Button, Field, FormError, Loading, Note } from '../../parts/ui.tsx';

const CAPS = ['create', 'read', 'update', 'patch', 'delete', 'list', 'sudo', 'deny'] as const;
interface Row {
  pattern: string;
  capabilities: string[];
}
export const textOf = (rows: readonly Row[]): string =>
  rows
    .map(
      (row) =>
        `path ${JSON.stringify(row.pattern)} {\n  capabilities = [${row.capabilities.map((cap) => JSON.stringify(cap)).join(', ')}]\n}`,
    )
    .join('\n') + '\n';

export function Builder({ text, onText }: { text: string; onText: (text: string) => void }) {
  const [rows, setRows] = useState<Row[] | undefined>(undefined);
  const [error, setError] = useState<unknown>(undefined);
  // What an earlier check found may be of another text: a row that is missing here is a rule that is lost.
  useEffect(() => {
    void call<{ errors: { line: number; message: string }[]; rules: Row[] }>(
      'POST',
      'sys/policies/check',
      { body: { policy: text } },
    ).then(({ data }) => {
      const wrong = data.errors[0];
      if (wrong) setError(new Error(en.theTextCannotBeRead(wrong.line, wrong.message)));
      else
        setRows(
          data.rules.map(({ pattern, capabilities }) => ({
            pattern,
            capabilities: [...capabilities],
          })),
        );
    }, setError);
  }, []);
  const [known, setKnown] = useState<string[]>([]);
  useEffect(() => {
    void allMounts().then(
      ({ secret }) =>
        setKnown(
          secret.flatMap((mount) =>
            mount.version === 2
              ? [`${mount.path}data/*`, `${mount.path}metadata/*`, `${mount.path}subkeys/*`]
              : [`${mount.path}*`],
          ),
        ),
      () => undefined,
    );
  }, []);
  if (!rows)
    return error ? (
      <div class="pad">
        <FormError error={error} />
      </div>
    ) : (
      <Loading rows={4} />
    );
  const set = (next: Row[]): void => {
    setRows(next);
    onText(textOf(next));
  };
  return (
    <div class="pad stack grow scroll-y">
      <Note>{en.rowsWriteTheTextAnewComments}</Note>
      {rows.map((row, i) => (
        <fieldset class="clash" key={i}>
          <legend>{en.rule(i + 1)}</legend>
          <div class="row">
            <div class="grow">
              <Field
                label={common.path}
                value={row.pattern}
                onInput={(pattern) =>
                  set(rows.map((one, at) => (at === i ? { ...one, pattern } : one)))
                }
                mono
                list={known}
              />
            </div>
            <Button
              kind="ghost"
              icon="trash"
              label={en.removeRule(i + 1)}
              onClick={() => set(rows.filter((_, at) => at !== i))}
            />
          </div>
          <div class="row">
            {CAPS.map((cap) => (
              <label class="check">
                <input
                  type="checkbox"
                  checked={row.capabilities.includes(cap)}
                  onChange={(event) => {
                    const on = event.currentTarget.checked;
                    set(
                      rows.map((one, at) =>
                        at === i
                          ? {
                              ...one,
                              capabilities: on
                                ? [...one.capabilities, cap]
                                : one.capabilities.filter((other) => other !== cap),
                            }
                          : one,
                      ),
                    );
                  }}
                />
                <span>{cap}</span>
              </label>
            ))}
          </div>
        </fieldset>
      ))}
      <div>
        <Button icon="plus" onClick={() => set([...rows, { pattern: '', capabilities: ['read'] }])}>
          {en.anotherRule}
        </Button>
      </div>
    </div>
  );
}
