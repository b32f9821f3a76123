// The second factor of a login: a code of each method that the rules ask for, sent for the token that waits. Loaded only when a login asks.
//
// Of each rule one of its methods is enough, and one code is for all rules with that method. The dialog stays over a wrong code, since the server keeps
// the login for five minutes; what has been typed elsewhere stays too.
import * as common from '../en/common.ts';
import * as en from '../en/parts/second-factor.ts';
import { useState } from 'preact/hooks';
import { ApiError, call, type Auth, type MfaRequirement } from '../lib/api.ts';
import { visible } from '../lib/time.ts';
import { open, Sheet } from './dialog.tsx';
import { Form } from './form.tsx';
import { Button, Field, Note, Select } from './ui.tsx';

function words(error: unknown): string {
  if (!(error instanceof ApiError)) return error instanceof Error ? error.message : String(error);
  if (error.status === 400 && /request id/i.test(error.message)) return en.thisLoginHasWaitedForToo;
  if (error.status === 403 && /already used/.test(error.message))
    return en.thisCodeWasUsedAlreadyWait;
  if (error.status === 403 && /not present/.test(error.message)) return en.noAppHasBeenSetUp;
  if (error.status === 403 && /failed to validate/.test(error.message))
    return en.theCodeIsWrongTakeThe;
  return error.message;
}

function Codes({
  asked,
  ns,
  close,
}: {
  asked: MfaRequirement;
  ns: string | undefined;
  close: (auth?: Auth) => void;
}) {
  const rules = Object.entries(asked.mfa_constraints).map(([rule, { any }]) => ({
    rule,
    methods: any.filter((one) => one.uses_passcode),
  }));
  const [chosen, setChosen] = useState<Record<string, string>>(() => {
    const first: Record<string, string> = {};
    for (const { rule, methods } of rules)
      first[rule] =
        (methods.find((one) => Object.values(first).includes(one.id)) ?? methods[0])?.id ?? '';
    return first;
  });
  const [codes, setCodes] = useState<Record<string, string>>({});
  const [busy, setBusy] = useState(false);
  const [error, setError] = useState('');
  const nameOf = (id: string): string =>
    visible(
      rules.flatMap(({ methods }) => methods).find((one) => one.id === id)?.name || en.theApp,
    );
  const ids = [...new Set(Object.values(chosen).filter((id) => id !== ''))];
  const without = rules.filter(({ methods }) => methods.length === 0);
  const submit = async (): Promise<void> => {
    setBusy(true);
    setError('');
    try {
      const { auth } = await call('POST', 'sys/mfa/validate', {
        token: '',
        ns,
        quiet: true,
        body: {
          mfa_request_id: asked.mfa_request_id,
          mfa_payload: Object.fromEntries(
            ids.map((id) => [id, [(codes[id] ?? '').replace(/\s+/g, '')]]),
          ),
        },
      });
      if (!auth?.client_token) throw new Error(en.theServerGaveNoToken);
      close(auth);
    } catch (caught) {
      setError(words(caught));
      setCodes({});
      setBusy(false);
    }
  };
  return (
    <Form name="login/second-factor" onSubmit={submit}>
      <Sheet
        title={en.aCodeIsNeeded}
        actions={
          <>
            <Button onClick={() => close()}>{common.cancel}</Button>
            <Button type="submit" kind="primary" busy={busy} disabled={without.length > 0}>
              {common.goOn}
            </Button>
          </>
        }
      >
        {without.map(({ rule }) => (
          <Note kind="bad">{en.theRuleAsksForSomethingElse(visible(rule))}</Note>
        ))}
        {rules
          .filter(({ methods }) => methods.length > 1)
          .map(({ rule, methods }) => (
            <Select
              label={en.forIt(visible(rule))}
              value={chosen[rule] ?? ''}
              options={methods.map((one) => [one.id, nameOf(one.id)] as const)}
              onChange={(id) => setChosen({ ...chosen, [rule]: id })}
            />
          ))}
        {ids.map((id, i) => (
          <Field
            key={id}
            label={en.codeOf(nameOf(id))}
            value={codes[id] ?? ''}
            onInput={(text) => setCodes({ ...codes, [id]: text })}
            autofocus={i === 0}
            autocomplete="one-time-code"
            mono
            required
          />
        ))}
        {error && <Note kind="bad">{visible(error)}</Note>}
      </Sheet>
    </Form>
  );
}

/** Asks for the codes until the server takes them; `ns` is the namespace of the login, if not the page's. */
export async function askCodes(asked: MfaRequirement, ns?: string): Promise<Auth> {
  const auth = await open<Auth>((close) => <Codes asked={asked} ns={ns} close={close} />);
  if (!auth) throw new Error(en.withoutTheCodeThereIsNo);
  return auth;
}
