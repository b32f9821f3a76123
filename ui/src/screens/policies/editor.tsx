// The editor of a policy: HCL with the server's errors and warnings at their lines (contract E3), a builder by rows, and the simulator beside it.
import * as common from '../../en/common.ts';
import * as en from '../../en/screens/policies/editor.ts';
import { useEffect, useLayoutEffect, useState } from 'preact/hooks';
import { ApiError, call, tryCall } from '../../lib/api.ts';
import { lineDiff } from '../../lib/diff.ts';
import { useAction } from '../../lib/load.ts';
import { fromHere, guard, href, route } from '../../lib/router.ts';
import { visible } from '../../lib/time.ts';
import { toast } from '../../lib/toasts.ts';
import { CodeArea, type Mark } from '../../parts/code-area.tsx';
import { confirm, open, Sheet } from '../../parts/dialog.tsx';
import { Icon } from '../../parts/icons.tsx';
import { useKeys } from '../../parts/keys.tsx';
import { Form } from '../../parts/form.tsx';
import { Button, FormError, Segments, Tag } from '../../parts/ui.tsx';
import { Builder } from './builder.tsx';
import { Simulator } from './simulator.tsx';

export interface Checked {
  errors: { line: number; column?: number; message: string }[];
  warnings: { line: number; kind: string; message: string }[];
  rules: { line: number; pattern: string; capabilities: string[] }[];
}
const CHECK_MS = 300;

/** Asks the server about a text while it is written; `undefined` where it has no such route. */
export function useCheck(text: string): Checked | undefined {
  const [found, setFound] = useState<Checked | undefined>(undefined);
  useEffect(() => {
    let isLate = false;
    const timer = setTimeout(
      () =>
        void tryCall<Checked & Record<string, unknown>>('POST', 'sys/policies/check', {
          body: { policy: text },
        }).then((reply) => {
          if (!isLate) setFound(reply?.data);
        }),
      CHECK_MS,
    );
    return () => {
      isLate = true;
      clearTimeout(timer);
    };
  }, [text]);
  return found;
}

export function PolicyEditor({
  name,
  saved,
  start,
  isNew,
  reload,
}: {
  name: string;
  saved: string;
  start: string;
  isNew: boolean;
  reload: () => void;
}) {
  const [text, setText] = useState(start);
  const [view, setView] = useState<'text' | 'rows'>('text');
  const [hit, setHit] = useState(Number(route.peek().query.get('line')) || 0);
  const checked = useCheck(text);
  const isDirty = text !== saved;
  // From the moment a change is seen, not from the next frame.
  useLayoutEffect(() => {
    guard.value = isDirty
      ? () =>
          confirm({
            title: en.leaveWithoutSaving,
            text: en.whatYouChangedInIsLost(name),
            action: common.leave,
            danger: true,
          })
      : undefined;
    return () => {
      guard.value = undefined;
    };
  }, [isDirty]);
  const save = useAction(async () => {
    if (!isNew && !(await review(saved, text, name))) return;
    const goOn = fromHere();
    await call('PUT', `sys/policies/acl/${name}`, { body: { policy: text } });
    toast(en.policySaved);
    if (isNew) void goOn(href(`policies/${name}`), true);
    else reload();
  });
  const remove = useAction(async () => {
    if (
      !(await confirm({
        title: en.deleteIt(name),
        text: en.whoeverHasItLosesAtOnce,
        action: common.deleteIt,
        danger: true,
        typed: name,
      }))
    )
      return;
    const goOn = fromHere();
    await call('DELETE', `sys/policies/acl/${name}`);
    toast(en.policyDeleted);
    void goOn(href('policies/'));
  });
  useKeys({
    save: () => {
      if (isDirty && !isRoot && errors.length === 0) void save.run();
    },
  });
  const atSaving = save.error instanceof ApiError ? save.error.message : '';
  const errors =
    checked?.errors ??
    (atSaving ? [{ line: Number(/line (\d+)/.exec(atSaving)?.[1] ?? 0), message: atSaving }] : []);
  const marks: Mark[] = [
    ...(hit ? [{ line: hit, message: common.decides, kind: 'hit' as const }] : []),
    ...(checked?.warnings ?? []).map((one): Mark => ({ ...one, kind: 'warning' })),
    ...errors.map((one): Mark => ({ ...one, kind: 'error' })),
  ];
  const isRoot = name === 'root';
  return (
    <div class="pol">
      <section class="ed" aria-label={en.policy(name)}>
        <header class="edhead">
          <h1 class="mono grow">{visible(name)}</h1>
          {isDirty && <Tag kind="warn">{isNew ? en.newNotSaved : en.draftNotSaved}</Tag>}
          <Segments
            label={common.form}
            value={view}
            options={[
              ['text', common.text],
              ['rows', common.rows],
            ]}
            onChange={setView}
          />
          {!isNew && !isRoot && name !== 'default' && (
            <Button
              kind="ghost"
              icon="trash"
              label={en.deleteThePolicy}
              need={{ path: `sys/policies/acl/${name}`, cap: 'delete' }}
              busy={remove.busy}
              onClick={() => void remove.run()}
            />
          )}
          <Button
            icon="check"
            kind="primary"
            busy={save.busy}
            disabled={!isDirty || isRoot || errors.length > 0}
            need={{ path: `sys/policies/acl/${name}`, cap: ['update', 'create'] }}
            onClick={() => void save.run()}
          >
            {common.save}
          </Button>
        </header>
        {view === 'text' ? (
          <CodeArea
            label={en.textOf(name)}
            value={text}
            onInput={(next) => {
              setText(next);
              setHit(0);
            }}
            language="hcl"
            errors={marks}
            rows={24}
            readOnly={isRoot}
          />
        ) : (
          <Builder text={text} onText={setText} />
        )}
        <FormError error={save.error ?? remove.error} />
        <ul class="probs" aria-live="polite">
          {errors.map((one) => (
            <li class="e">
              <Icon name="warn" />
              <span>
                {one.line > 0 && <b>{en.line(one.line)} </b>}
                {visible(one.message)}
              </span>
            </li>
          ))}
          {(checked?.warnings ?? []).map((one) => (
            <li class="w">
              <Icon name="info" />
              <span>
                <b>{en.line(one.line)} </b>
                {visible(one.message)}
              </span>
            </li>
          ))}
          {checked && errors.length === 0 && checked.warnings.length === 0 && (
            <li class="k">
              <Icon name="check" />
              <span>{en.rulesNothingStandsOut(checked.rules.length)}</span>
            </li>
          )}
          {isRoot && (
            <li>
              <Icon name="info" />
              <span>{en.theRootPolicyHasNoText}</span>
            </li>
          )}
        </ul>
      </section>
      <section class="sim" aria-label={en.simulator}>
        <Simulator
          draft={{ name, text, saved }}
          onLine={(policy, line) => {
            if (policy === name) {
              setView('text');
              setHit(line);
            }
          }}
        />
      </section>
    </div>
  );
}

function review(saved: string, text: string, name: string): Promise<boolean> {
  return open<boolean>((close) => (
    <Form
      name="policy/review"
      onSubmit={() => {
        close(true);
      }}
    >
      <Sheet
        title={en.save(name)}
        actions={
          <>
            <Button onClick={() => close(false)}>{en.back}</Button>
            <Button kind="primary" type="submit" autofocus>
              {common.save}
            </Button>
          </>
        }
      >
        <pre class="lines mono diff" tabIndex={0}>
          {lineDiff(saved, text).map((line) => (
            <span class={line.mark === '+' ? 'add' : line.mark === '-' ? 'del' : ''}>
              <i aria-hidden="true">{line.mark}</i>
              {visible(line.text)}
              {'\n'}
            </span>
          ))}
        </pre>
        <p class="soft">{en.itHoldsAtOnceForEvery}</p>
      </Sheet>
    </Form>
  )).then((yes) => yes === true);
}
