// A shared secret, for somebody without an account. The token is in the fragment; looking at its end opens nothing, so a scanner of links burns nothing.
import * as common from '../en/common.ts';
import * as en from '../en/screens/open.ts';
import { useEffect, useState } from 'preact/hooks';
import { ApiError, call } from '../lib/api.ts';
import { copySecret } from '../lib/clipboard.ts';
import { download } from '../lib/download.ts';
import { asText, parseJson, writeJson, type Data, type Json } from '../lib/json.ts';
import { useAction } from '../lib/load.ts';
import { unseal } from '../lib/phrase.ts';
import { namespace } from '../lib/state.ts';
import { ago, exact, visible } from '../lib/time.ts';
import { Mark } from '../parts/icons.tsx';
import { Form } from '../parts/form.tsx';
import { Button, Card, Field, FormError, Loading, Note } from '../parts/ui.tsx';

type State =
  | { kind: 'ask' }
  | { kind: 'looking' }
  | { kind: 'waiting'; ends: number }
  | { kind: 'gone' }
  | { kind: 'failed'; error: unknown }
  | { kind: 'sealed' }
  | { kind: 'phrase'; sealed: string }
  | { kind: 'open'; data: Data };

/** What a refusal says about the link: only a plain one says that the link opens nothing. A server that has no leader or too much to do says nothing about it. */
function refused(error: unknown): State {
  if (!(error instanceof ApiError)) return { kind: 'failed', error };
  if (error.isSealed) return { kind: 'sealed' };
  return [400, 403, 404].includes(error.status) ? { kind: 'gone' } : { kind: 'failed', error };
}

export function Open() {
  const [token, setToken] = useState('');
  const [state, setState] = useState<State>({ kind: 'looking' });
  const [phrase, setPhrase] = useState('');
  const [isShown, setShown] = useState(false);
  const look = (given: string): void => {
    setState({ kind: 'looking' });
    // Values of another link are hidden until somebody wants to see them too.
    setShown(false);
    setPhrase('');
    call<Record<string, any>>('POST', 'sys/wrapping/lookup', {
      token: '',
      quiet: true,
      body: { token: given },
    }).then(
      ({ data }) => {
        if (data['state'] === 'opened' || data['state'] === 'expired')
          return setState({ kind: 'gone' });
        setState({
          kind: 'waiting',
          ends: Date.parse(data['creation_time'] as string) + Number(data['creation_ttl']) * 1000,
        });
      },
      (error: unknown) => setState(refused(error)),
    );
  };
  useEffect(() => {
    document.title = en.aSharedSecretKallisto;
    const take = (): void => {
      const given = location.hash.slice(1).trim();
      if (!given) return;
      setToken(given);
      // The token does not stay in the history.
      history.replaceState(null, '', location.pathname + location.search);
      look(given);
    };
    if (location.hash.length > 1) take();
    else setState({ kind: 'ask' });
    // Another link in the same tab changes the fragment alone, and loads nothing.
    addEventListener('hashchange', take);
    return () => removeEventListener('hashchange', take);
  }, []);
  const run = useAction(async () => {
    try {
      const { data } = await call<Record<string, Json>>('POST', 'sys/wrapping/unwrap', {
        token,
        exact: true,
        quiet: true,
        body: {},
      });
      const sealed = data['kallisto_sealed'];
      if (typeof sealed === 'string') return setState({ kind: 'phrase', sealed });
      // A wrapped read of KV version 2 has its data inside, beside its metadata.
      const inner = data['data'];
      setState({
        kind: 'open',
        data:
          inner !== null && typeof inner === 'object' && !Array.isArray(inner) && 'metadata' in data
            ? (inner as Data)
            : data,
      });
    } catch (error) {
      setState(refused(error));
    }
  });
  const decrypt = useAction(async () => {
    if (state.kind !== 'phrase') return;
    setState({ kind: 'open', data: parseJson(await unseal(state.sealed, phrase)) as Data });
  });
  return (
    <div class="outside">
      <main class={`gate ${state.kind === 'open' ? 'wide' : ''}`} id="content">
        <div class="gatehead">
          <Mark />
          <h1>{state.kind === 'open' ? en.opened : en.aSecretForYou}</h1>
        </div>
        {state.kind === 'looking' && <Loading rows={2} />}
        {state.kind === 'ask' && (
          <Form
            name="open/token"
            class="stack"
            onSubmit={() => {
              const given = token.trim().replace(/^.*#/, '');
              setToken(given);
              look(given);
            }}
          >
            <p class="soft">{en.pasteTheLinkOrItsToken}</p>
            <Field label={en.linkOrToken} value={token} onInput={setToken} mono masked autofocus />
            <Button kind="primary" type="submit" class="block" disabled={!token.trim()}>
              {en.look}
            </Button>
          </Form>
        )}
        {state.kind === 'sealed' && <Note kind="warn">{en.theServerIsSealedJustNow}</Note>}
        {state.kind === 'waiting' && (
          <>
            <p class="soft">
              {en.itOpensOnceForWhoeverPresses} <b title={exact(state.ends)}>{exact(state.ends)}</b>{' '}
              {en.nothingWasOpenedYet(ago(state.ends))}
            </p>
            <Button
              kind="primary"
              class="block"
              icon="eye"
              busy={run.busy}
              onClick={() => void run.run()}
            >
              {en.openItNow}
            </Button>
            <Note>{en.openItWhereNobodyLooksOver}</Note>
          </>
        )}
        {state.kind === 'gone' && (
          <Note kind="bad">
            <b>{en.thisLinkOpensNothingAnyMore}</b>
            <p>{en.itHasEndedWasWithdrawnOr}</p>
          </Note>
        )}
        {state.kind === 'failed' && (
          <>
            <FormError error={state.error} />
            <Button class="block" icon="undo" onClick={() => look(token)}>
              {en.lookAgain}
            </Button>
          </>
        )}
        {state.kind === 'phrase' && (
          <Form name="open/phrase" class="stack" onSubmit={() => decrypt.run()}>
            <p class="soft">{en.itIsEncryptedWithAPhrase}</p>
            <Field label={en.phrase} value={phrase} onInput={setPhrase} mono autofocus />
            <FormError error={decrypt.error} />
            <Button
              kind="primary"
              type="submit"
              class="block"
              busy={decrypt.busy}
              disabled={!phrase}
            >
              {en.decrypt}
            </Button>
          </Form>
        )}
        {state.kind === 'open' && (
          <>
            <Card>
              <table class="values">
                <thead>
                  <tr>
                    <th>{common.key}</th>
                    <th>{common.value}</th>
                    <th>
                      <Button
                        kind="ghost"
                        size="sm"
                        icon={isShown ? 'eyeoff' : 'eye'}
                        onClick={() => setShown(!isShown)}
                      >
                        {isShown ? en.hide : en.show}
                      </Button>
                    </th>
                  </tr>
                </thead>
                <tbody>
                  {Object.entries(state.data).map(([key, value]) => (
                    <tr key={key}>
                      <td class="mono">{visible(key)}</td>
                      <td class="mono">
                        {isShown ? (
                          <span class="shown pre">{asText(value)}</span>
                        ) : (
                          <span class="mask">••••••••••••</span>
                        )}
                      </td>
                      <td>
                        <Button
                          kind="ghost"
                          size="sm"
                          icon="copy"
                          label={en.copy(key)}
                          onClick={() => void copySecret(asText(value), key)}
                        />
                      </td>
                    </tr>
                  ))}
                </tbody>
              </table>
            </Card>
            <div class="row">
              <Button
                icon="dl"
                onClick={() =>
                  download('secret.json', writeJson(state.data, 2), 'application/json')
                }
              >
                {common.download}
              </Button>
            </div>
            <Note kind="warn">{en.theLinkIsUsedUpAnd}</Note>
          </>
        )}
        {namespace.value && (
          <p class="dim">
            {common.namespace} <span class="mono">{namespace.value}</span>
          </p>
        )}
      </main>
    </div>
  );
}
