// Transit: keys with their versions, and a bench to try them. Plaintext stays in the page.
import * as common from '../en/common.ts';
import * as en from '../en/screens/transit.ts';
import { useState } from 'preact/hooks';
import { call } from '../lib/api.ts';
import { copy, copySecret } from '../lib/clipboard.ts';
import { useAction, useLoad } from '../lib/load.ts';
import { allMounts } from '../lib/place.ts';
import { fromHere, go, href, route } from '../lib/router.ts';
import { ago, visible } from '../lib/time.ts';
import { toast } from '../lib/toasts.ts';
import { confirm, open, Sheet } from '../parts/dialog.tsx';
import { Icon } from '../parts/icons.tsx';
import { Form } from '../parts/form.tsx';
import {
  Button,
  Card,
  Check,
  Empty,
  Failed,
  Field,
  FormError,
  LinkButton,
  Loading,
  Page,
  Segments,
  Select,
  Tag,
} from '../parts/ui.tsx';

const TYPES = [
  'aes256-gcm96',
  'aes128-gcm96',
  'chacha20-poly1305',
  'ed25519',
  'ecdsa-p256',
  'ecdsa-p384',
  'ecdsa-p521',
  'rsa-2048',
  'rsa-3072',
  'rsa-4096',
  'hmac',
] as const;
const toBase64 = (text: string): string =>
  btoa(Array.from(new TextEncoder().encode(text), (byte) => String.fromCharCode(byte)).join(''));
const fromBase64 = (text: string): string => {
  const bytes = Uint8Array.from(atob(text), (character) => character.charCodeAt(0));
  try {
    return new TextDecoder('utf-8', { fatal: true }).decode(bytes);
  } catch {
    return text;
  }
};

export function Transit() {
  const text = route.value.path.replace(/^transit\/?/, '');
  const mounts = useLoad(
    async () => (await allMounts()).secret.filter((mount) => mount.type === 'transit'),
    [],
  );
  if (mounts.error) return <Failed error={mounts.error} retry={mounts.reload} />;
  if (!mounts.data) return <Loading />;
  const mount = mounts.data.find((one) => text.startsWith(one.path));
  if (mount) {
    const key = text.slice(mount.path.length);
    return key ? (
      <Key key={text} mount={mount.path} name={key} />
    ) : (
      <Keys key={mount.path} mount={mount.path} />
    );
  }
  return (
    <Page title={common.transit} sub={en.encryptionSignaturesAndCodesAsA}>
      {mounts.data.length === 0 ? (
        <Card>
          <Empty
            icon="bolt"
            title={en.noTransitMountIsReachable}
            command="kallisto secrets enable transit"
          />
        </Card>
      ) : (
        <Card>
          <ul class="mounts">
            {mounts.data.map((one) => (
              <li key={one.path}>
                <a href={href(`transit/${one.path}`)}>
                  <Icon name="bolt" small={false} />
                  <span class="grow">
                    <b class="mono">{one.path}</b>
                    <small class="dim">{visible(one.description)}</small>
                  </span>
                  <Icon name="chev" />
                </a>
              </li>
            ))}
          </ul>
        </Card>
      )}
    </Page>
  );
}

function Keys({ mount }: { mount: string }) {
  const loaded = useLoad(
    async () =>
      (
        await call<{ keys?: string[] }>('LIST', `${mount}keys`).catch(
          (error: { status?: number }) => {
            if (error.status === 404) return { data: { keys: [] as string[] } };
            throw error;
          },
        )
      ).data.keys ?? [],
    [mount],
  );
  if (loaded.error)
    return <Failed error={loaded.error} retry={loaded.reload} path={`${mount}keys`} cap="list" />;
  const make = (): void =>
    void open<string>((close) => <New mount={mount} close={close} />).then((name) => {
      if (name) void go(href(`transit/${mount}${name}`));
    });
  return (
    <Page
      title={<span class="mono">{mount}</span>}
      actions={
        <Button
          kind="primary"
          icon="plus"
          need={{ path: `${mount}keys/new`, cap: ['create', 'update'] }}
          onClick={make}
        >
          {en.newKey}
        </Button>
      }
    >
      {!loaded.data ? (
        <Loading />
      ) : loaded.data.length === 0 ? (
        <Card>
          <Empty
            icon="bolt"
            title={en.noKeyYet}
            action={
              <Button kind="primary" icon="plus" onClick={make}>
                {en.makeOne}
              </Button>
            }
            command={`kallisto write -f ${mount}keys/payments`}
          />
        </Card>
      ) : (
        <Card>
          <ul class="links">
            {loaded.data.map((name) => (
              <li key={name}>
                <a href={href(`transit/${mount}${name}`)}>
                  <Icon name="key" />
                  <span class="mono grow">{visible(name)}</span>
                </a>
              </li>
            ))}
          </ul>
        </Card>
      )}
    </Page>
  );
}

function New({ mount, close }: { mount: string; close: (name?: string) => void }) {
  const [name, setName] = useState('');
  const [type, setType] = useState<(typeof TYPES)[number]>('aes256-gcm96');
  const [derived, setDerived] = useState(false);
  const run = useAction(async () => {
    await call('POST', `${mount}keys/${name}`, { body: { type, derived } });
    close(name);
  });
  return (
    <Form name="transit/new" onSubmit={() => run.run()}>
      <Sheet
        title={en.newKey}
        actions={
          <>
            <Button onClick={() => close()}>{common.cancel}</Button>
            <Button kind="primary" type="submit" busy={run.busy} disabled={!name}>
              {common.makeIt}
            </Button>
          </>
        }
      >
        <Field label={common.name} value={name} onInput={setName} mono autofocus />
        <Select
          label={common.kind}
          value={type}
          onChange={setType}
          options={TYPES.map((one) => [one, one] as const)}
        />
        <Check
          label={en.derived}
          hint={en.eachRequestNamesAContext}
          checked={derived}
          onChange={setDerived}
        />
        <FormError error={run.error} />
      </Sheet>
    </Form>
  );
}

type Verb = 'encrypt' | 'decrypt' | 'rewrap' | 'sign' | 'verify' | 'hmac';
function Key({ mount, name }: { mount: string; name: string }) {
  const loaded = useLoad(
    async () => (await call<Record<string, any>>('GET', `${mount}keys/${name}`)).data,
    [mount, name],
  );
  const rotate = useAction(async () => {
    if (
      await confirm({
        title: en.rotate(name),
        text: en.aNewVersionEncryptsFromNow,
        action: en.rotate2,
      })
    ) {
      await call('POST', `${mount}keys/${name}/rotate`, { body: {} });
      toast(en.rotated);
      loaded.reload();
    }
  });
  if (loaded.error) return <Failed error={loaded.error} retry={loaded.reload} />;
  if (!loaded.data) return <Loading />;
  const data = loaded.data;
  const verbs: Verb[] = [
    ...(data['supports_encryption'] ? (['encrypt', 'decrypt', 'rewrap'] as const) : []),
    ...(data['supports_signing'] ? (['sign', 'verify'] as const) : []),
    'hmac',
  ];
  return (
    <Page
      title={<span class="mono">{visible(name)}</span>}
      sub={
        <span class="mono">
          {mount}keys/{name}
        </span>
      }
      actions={
        <>
          <LinkButton href={href(`transit/${mount}`)} icon="key">
            {en.allKeys}
          </LinkButton>
          <Button
            icon="undo"
            busy={rotate.busy}
            need={{ path: `${mount}keys/${name}/rotate`, cap: ['update', 'create'] }}
            onClick={() => void rotate.run()}
          >
            {en.rotate2}
          </Button>
        </>
      }
    >
      <FormError error={rotate.error} />
      <div class="two">
        <Bench mount={mount} name={name} verbs={verbs} isDerived={data['derived'] === true} />
        <Card title={common.key} pad>
          <dl class="kv">
            <dt>{common.kind}</dt>
            <dd class="mono">{data['type']}</dd>
            <dt>{common.version}</dt>
            <dd>{data['latest_version']}</dd>
            <dt>{en.decryptsFrom}</dt>
            <dd>
              {common.version2} {data['min_decryption_version']}
            </dd>
            <dt>{en.exportable}</dt>
            <dd>{data['exportable'] ? <Tag kind="warn">{en.yes}</Tag> : en.no}</dd>
            <dt>{en.mayBeDeleted}</dt>
            <dd>{data['deletion_allowed'] ? <Tag kind="warn">{en.yes}</Tag> : en.no}</dd>
          </dl>
          <h3>{common.versions}</h3>
          <ul class="stack">
            {Object.entries((data['keys'] ?? {}) as Record<string, any>)
              .reverse()
              .slice(0, 12)
              .map(([version, one]) => (
                <li class="row">
                  <b>{version}</b>
                  <span class="dim">
                    {ago(typeof one === 'number' ? one * 1000 : (one['creation_time'] as string))}
                  </span>
                </li>
              ))}
          </ul>
        </Card>
      </div>
      <Limits mount={mount} name={name} data={data} reload={loaded.reload} />
    </Page>
  );
}

/** From which version on a key decrypts and encrypts, when it rotates by itself, and what may be done with it. */
function Limits({
  mount,
  name,
  data,
  reload,
}: {
  mount: string;
  name: string;
  data: Record<string, any>;
  reload: () => void;
}) {
  const latest = Number(data['latest_version'] ?? 1);
  const [decrypts, setDecrypts] = useState(String(data['min_decryption_version'] ?? 1));
  const [encrypts, setEncrypts] = useState(String(data['min_encryption_version'] ?? 0));
  const [rotates, setRotates] = useState(String(data['auto_rotate_period'] ?? 0));
  const [mayDelete, setMayDelete] = useState(Boolean(data['deletion_allowed']));
  const save = useAction(async () => {
    await call('POST', `${mount}keys/${name}/config`, {
      body: {
        min_decryption_version: Number(decrypts),
        min_encryption_version: Number(encrypts),
        auto_rotate_period: Number.isNaN(Number(rotates)) ? rotates : Number(rotates),
        deletion_allowed: mayDelete,
      },
    });
    toast(en.limitsSaved);
    reload();
  });
  const trim = useAction(async () => {
    const from = Number(decrypts);
    if (
      !(await confirm({
        title: en.deleteVersionsBelow(from),
        text: en.whatWasEncryptedOrSignedWith,
        action: en.deleteVersions,
        danger: true,
        typed: name,
      }))
    )
      return;
    await call('POST', `${mount}keys/${name}/trim`, { body: { min_available_version: from } });
    toast(en.olderVersionsAreGone);
    reload();
  });
  const remove = useAction(async () => {
    if (
      !(await confirm({
        title: en.deleteIt(name),
        text: en.everythingItEncryptedIsLostFor,
        action: common.deleteIt,
        danger: true,
        typed: name,
      }))
    )
      return;
    const goOn = fromHere();
    await call('DELETE', `${mount}keys/${name}`);
    toast(en.keyDeleted);
    void goOn(href(`transit/${mount}`));
  });
  const canTrim =
    Number(data['min_decryption_version'] ?? 1) >
      Math.max(1, Number(data['min_available_version'] ?? 0)) &&
    Number(data['min_encryption_version'] ?? 0) >= Number(data['min_decryption_version'] ?? 1);
  return (
    <Card title={en.limits} pad>
      <Form name="transit/limits" class="stack" onSubmit={() => save.run()}>
        <div class="filters">
          <Field
            label={en.decryptsFromVersion}
            type="number"
            min={1}
            value={decrypts}
            onInput={setDecrypts}
            hint={en.n1To(latest)}
          />
          <Field
            label={en.encryptsFromVersion}
            type="number"
            min={0}
            value={encrypts}
            onInput={setEncrypts}
            hint={en.n0TheLatest}
          />
          <Field
            label={en.rotatesByItselfAfter}
            value={rotates}
            onInput={setRotates}
            mono
            hint={en.n720h0Never}
          />
        </div>
        <Check label={en.mayBeDeleted} checked={mayDelete} onChange={setMayDelete} />
        <FormError error={save.error ?? trim.error ?? remove.error} />
        <div class="row">
          <Button
            kind="primary"
            type="submit"
            busy={save.busy}
            need={{ path: `${mount}keys/${name}/config`, cap: ['update', 'create'] }}
            onClick={() => {}}
          >
            {en.saveLimits}
          </Button>
          <Button
            icon="trash"
            busy={trim.busy}
            disabled={!canTrim}
            title={canTrim ? undefined : en.raiseBothLowestVersionsFirst}
            need={{ path: `${mount}keys/${name}/trim`, cap: ['update', 'create'] }}
            onClick={() => void trim.run()}
          >
            {en.trimOlderVersions}
          </Button>
          {data['deletion_allowed'] ? (
            <Button
              kind="danger"
              icon="trash"
              busy={remove.busy}
              need={{ path: `${mount}keys/${name}`, cap: 'delete' }}
              onClick={() => void remove.run()}
            >
              {en.deleteKey}
            </Button>
          ) : null}
        </div>
      </Form>
    </Card>
  );
}

function Bench({
  mount,
  name,
  verbs,
  isDerived,
}: {
  mount: string;
  name: string;
  verbs: Verb[];
  isDerived: boolean;
}) {
  const [verb, setVerb] = useState<Verb>(verbs[0] ?? 'hmac');
  const [text, setText] = useState('');
  const [signature, setSignature] = useState('');
  const [context, setContext] = useState('');
  const [result, setResult] = useState('');
  const run = useAction(async () => {
    const input = toBase64(text);
    const body = {
      encrypt: { plaintext: input },
      decrypt: { ciphertext: text.trim() },
      rewrap: { ciphertext: text.trim() },
      sign: { input },
      verify: { input, signature: signature.trim() },
      hmac: { input },
    }[verb];
    const { data } = await call<Record<string, any>>('POST', `${mount}${verb}/${name}`, {
      body: isDerived ? { ...body, context: toBase64(context) } : body,
    });
    setResult(
      verb === 'decrypt'
        ? fromBase64(data['plaintext'] as string)
        : verb === 'verify'
          ? data['valid']
            ? en.theSignatureIsValid
            : en.theSignatureIsNotValid
          : String(data['ciphertext'] ?? data['signature'] ?? data['hmac'] ?? ''),
    );
  });
  return (
    <Card
      title={en.bench}
      actions={
        <Segments
          label={common.whatToDo}
          value={verb}
          options={verbs.map((one) => [one, one] as const)}
          onChange={(next) => {
            setVerb(next);
            setResult('');
          }}
        />
      }
      pad
    >
      <Form name="transit/bench" class="stack" onSubmit={() => run.run()}>
        <Field
          label={verb === 'decrypt' || verb === 'rewrap' ? en.ciphertext : common.text}
          value={text}
          onInput={setText}
          rows={4}
          mono
        />
        {isDerived && (
          <Field label={en.context} value={context} onInput={setContext} mono required />
        )}
        {verb === 'verify' && (
          <Field label={en.signature} value={signature} onInput={setSignature} mono rows={2} />
        )}
        <FormError error={run.error} />
        <div>
          <Button
            kind="primary"
            type="submit"
            busy={run.busy}
            need={{ path: `${mount}${verb}/${name}`, cap: ['update', 'create'] }}
            onClick={() => {}}
          >
            {verb}
          </Button>
        </div>
      </Form>
      {result && (
        <div class="code mono">
          <code class="grow">{visible(result)}</code>
          <Button
            size="sm"
            kind="ghost"
            icon="copy"
            label={en.copyTheResult}
            onClick={() => void (verb === 'decrypt' ? copySecret : copy)(result, en.result)}
          />
        </div>
      )}
    </Card>
  );
}
