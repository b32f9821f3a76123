// Signing in: public methods as buttons, the one used last first; any other by mount name; a token.
import * as common from '../en/common.ts';
import * as en from '../en/screens/login.ts';
import { useEffect, useState } from 'preact/hooks';
import {
  fieldsOf,
  KINDS,
  login,
  loginWords,
  publicWays,
  type Kind,
  type Way,
} from '../lib/logins.ts';
import { oidcStart } from '../lib/oidc.ts';
import { go, href, route } from '../lib/router.ts';
import { lastMount, resume } from '../lib/session.ts';
import { cover, me, namespace, server, uiConfig } from '../lib/state.ts';
import { askTable, forgetNeeds } from '../lib/needs.ts';
import { visible } from '../lib/time.ts';
import { Icon, Mark } from '../parts/icons.tsx';
import { Form } from '../parts/form.tsx';
import { Button, Field, Note, Select } from '../parts/ui.tsx';

const TOKEN: Way = { kind: 'token', mount: '', label: common.token };

/** The form of one method. */
function Fields({ way, onDone }: { way: Way; onDone: () => void }) {
  const [values, setValues] = useState<Record<string, string>>({});
  const [kind, setKind] = useState<Kind>(way.kind);
  const [mount, setMount] = useState(way.mount);
  const [busy, setBusy] = useState(false);
  const [error, setError] = useState('');
  const isOther = way.label === '';
  const used: Way = isOther
    ? { kind, mount: mount.replace(/^auth\/|\/+$/g, '') || kind, label: mount }
    : way;
  const submit = async (): Promise<void> => {
    setBusy(true);
    setError('');
    try {
      if (used.kind === 'oidc') {
        await oidcStart(used.mount, values['role'] ?? '', cover.peek() !== '');
        if (!cover.peek()) return;
      } else await login(used, values);
      setValues({});
      onDone();
    } catch (caught) {
      setError(loginWords(caught, used.kind));
    } finally {
      setBusy(false);
    }
  };
  return (
    <Form name="login" class="stack" onSubmit={submit} label={en.signIn}>
      {isOther && (
        <>
          <Select
            label={en.method}
            value={kind}
            options={KINDS.filter(([one]) => one !== 'token')}
            onChange={setKind}
          />
          <Field
            label={common.mount}
            value={mount}
            onInput={setMount}
            mono
            placeholder={kind}
            hint={en.asInAuthMount}
          />
        </>
      )}
      {fieldsOf(used.kind).map((field, i) => (
        <Field
          key={used.kind + field.name}
          label={field.label}
          value={values[field.name] ?? ''}
          onInput={(text) => setValues({ ...values, [field.name]: text })}
          autofocus={i === 0 && !isOther}
          mono={field.name !== 'username'}
          required={!field.optional}
          hint={field.optional ? common.optional : undefined}
          {...(field.rows ? { rows: field.rows } : { type: field.masked ? 'password' : 'text' })}
          autocomplete={field.autocomplete ?? 'off'}
        />
      ))}
      {used.kind === 'cert' && <p class="dim">{en.theBrowserPresentsTheCertificateOf}</p>}
      {error && <Note kind="bad">{error}</Note>}
      <Button kind="primary" type="submit" busy={busy} class="block">
        {used.kind === 'oidc' ? en.continueWith(way.label || 'OIDC') : en.signIn}
      </Button>
    </Form>
  );
}

function Ways({ onDone }: { onDone: () => void }) {
  const [ways, setWays] = useState<Way[] | undefined>(undefined);
  const [way, setWay] = useState<Way | undefined>(undefined);
  useEffect(() => {
    void publicWays().then((found) => {
      setWays(found);
      const wanted = route.peek().query.get('with') ?? lastMount();
      setWay(found.find((one) => one.mount === wanted) ?? found[0] ?? TOKEN);
    });
  }, [namespace.value]);
  if (!ways || !way) return <div class="gate-wait" />;
  const wanted = lastMount();
  const all = [...ways].sort((a, b) => Number(b.mount === wanted) - Number(a.mount === wanted));
  const other: Way = { kind: 'userpass', mount: '', label: '' };
  const tabs = [...all, TOKEN, other];
  return (
    <>
      <div class="ways" role="group" aria-label={en.howToSignIn}>
        {tabs.map((one) => (
          <button
            type="button"
            aria-pressed={
              one.mount === way.mount && one.label === way.label && one.kind === way.kind
            }
            onClick={() => setWay(one)}
          >
            <Icon
              name={
                one.kind === 'token'
                  ? 'key'
                  : one.label === ''
                    ? 'more'
                    : ['userpass', 'ldap', 'okta'].includes(one.kind)
                      ? 'user'
                      : 'shield'
              }
            />
            {one.label === '' ? en.other : visible(one.label)}
          </button>
        ))}
      </div>
      <Fields key={way.kind + way.mount + way.label} way={way} onDone={onDone} />
    </>
  );
}

/** In the place of a session that ended: the same login, the screen kept. */
export function SignInAgain() {
  const mine = me.value;
  return (
    <Ways
      onDone={() => {
        forgetNeeds();
        void askTable();
        if (mine && me.peek()?.name !== mine.name) location.reload();
      }}
    />
  );
}

export function Login() {
  const [ns, setNs] = useState(namespace.value);
  const [tried, setTried] = useState(false);
  const query = route.value.query;
  const back = query.get('to');
  const arrive = (): void => {
    const here = route.peek().path;
    void go(
      back ??
        (here.startsWith('login') || here === '' ? href('') : location.pathname + location.search),
      true,
    );
  };
  useEffect(() => {
    document.title = en.signInKallisto;
    if (route.peek().path.startsWith('login'))
      void resume().then((is) => {
        if (is) arrive();
        else setTried(true);
      });
    else setTried(true);
  }, []);
  const banner = uiConfig.value.banner;
  if (!tried) return <div class="outside" />;
  return (
    <div class="outside">
      <main class="gate" id="content">
        <div class="gatehead">
          <Mark />
          <h1>{en.signInToKallisto}</h1>
          {server.value.name && <p class="dim mono">{server.value.name}</p>}
        </div>
        {!server.value.ok && <Note kind="bad">{en.theServerDoesNotAnswer}</Note>}
        {banner?.text && (
          <Note
            kind={banner.level === 'bad' || banner.level === 'warn' ? banner.level : 'accent'}
            icon="flag"
          >
            {visible(banner.text)}
          </Note>
        )}
        <Ways onDone={arrive} />
        <details class="nsbox" open={ns !== ''}>
          <summary>
            {common.namespace}
            {ns && (
              <>
                : <span class="mono">{visible(ns)}</span>
              </>
            )}
          </summary>
          <Form
            name="login/namespace"
            onSubmit={() => {
              void go(href('login', { to: back ?? undefined }, ns.replace(/^\/+|\/+$/g, '')));
            }}
          >
            <Field label={common.path} value={ns} onInput={setNs} mono placeholder={common.root} />
            <Button type="submit">{common.useIt}</Button>
          </Form>
        </details>
      </main>
      <p class="gatefoot dim">
        {en.kallisto(server.value.version)} <a href={href('open')}>{en.openASharedSecret}</a>
      </p>
    </div>
  );
}
