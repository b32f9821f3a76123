// Policies: the list, the editor with the server's checks, and the simulator beside it.
import * as common from '../../en/common.ts';
import * as en from '../../en/screens/policies/index.ts';
import { useState } from 'preact/hooks';
import { ApiError, call, tryCall } from '../../lib/api.ts';
import { useAction, useLoad } from '../../lib/load.ts';
import { go, href, route } from '../../lib/router.ts';
import { me } from '../../lib/state.ts';
import { visible } from '../../lib/time.ts';
import { open, Sheet } from '../../parts/dialog.tsx';
import { Icon } from '../../parts/icons.tsx';
import { Form } from '../../parts/form.tsx';
import {
  Button,
  Card,
  Empty,
  Failed,
  Field,
  FormError,
  LinkButton,
  Loading,
  Page,
  Tag,
} from '../../parts/ui.tsx';
import { PolicyEditor } from './editor.tsx';
import { Simulate } from './simulator.tsx';

/** The server's limit (`crates/auth/src/policy/limits.rs`), which it holds a name to only when a policy is saved. */
const NAME_BYTES_MAX = 256;
const BUILTIN = ['default', 'root'];
export const TEMPLATES: Record<string, [string, string]> = {
  reader: [
    en.readsOneFolder,
    '# Reads secrets below secret/apps/payments/, and lists them.\npath "secret/data/apps/payments/*" {\n  capabilities = ["read"]\n}\npath "secret/metadata/apps/payments/*" {\n  capabilities = ["read", "list"]\n}\npath "secret/subkeys/apps/payments/*" {\n  capabilities = ["read"]\n}\n',
  ],
  team: [
    en.aTeamWithItsOwnFolder,
    '# A team that owns secret/apps/payments/: everything but destroying for good.\npath "secret/data/apps/payments/*" {\n  capabilities = ["create", "read", "update", "patch", "delete"]\n}\npath "secret/metadata/apps/payments/*" {\n  capabilities = ["read", "list", "update", "patch"]\n}\npath "secret/subkeys/apps/payments/*" {\n  capabilities = ["read"]\n}\npath "secret/delete/apps/payments/*" {\n  capabilities = ["update"]\n}\npath "secret/undelete/apps/payments/*" {\n  capabilities = ["update"]\n}\npath "sys/kallisto/kv/*" {\n  capabilities = ["read", "update"]\n}\n',
  ],
  operator: [
    en.anOperatorWithoutSecrets,
    '# Runs the servers and reads no secret.\npath "sys/storage/raft/*" {\n  capabilities = ["read", "update", "sudo"]\n}\npath "sys/kallisto/cluster" {\n  capabilities = ["read", "sudo"]\n}\npath "sys/metrics" {\n  capabilities = ["read"]\n}\npath "sys/audit" {\n  capabilities = ["read", "sudo"]\n}\npath "sys/step-down" {\n  capabilities = ["update", "sudo"]\n}\n',
  ],
};

function List() {
  const loaded = useLoad(
    async () => (await call<{ keys: string[] }>('LIST', 'sys/policies/acl')).data.keys,
    [],
  );
  const [text, setText] = useState('');
  if (loaded.error)
    return <Failed error={loaded.error} retry={loaded.reload} path="sys/policies/acl" cap="list" />;
  const names = (loaded.data ?? []).filter((name) =>
    name.toLowerCase().includes(text.toLowerCase()),
  );
  const isFresh = loaded.data?.every((name) => BUILTIN.includes(name)) ?? false;
  const make = (): void =>
    void open<string>((close) => <New close={close} />).then((name) => {
      if (name) void go(href(`policies/${name}`, { new: 1 }));
    });
  return (
    <Page
      title={common.policies}
      sub={en.eachNamesPathsAndWhatMay}
      actions={
        <>
          <LinkButton href={href('policies/simulate')} icon="wand">
            {en.simulate}
          </LinkButton>
          <Button
            kind="primary"
            icon="plus"
            need={{ path: 'sys/policies/acl/new', cap: ['create', 'update'] }}
            onClick={make}
          >
            {en.newPolicy}
          </Button>
        </>
      }
    >
      {!loaded.data ? (
        <Loading />
      ) : (
        <>
          <Field
            label={common.filter}
            value={text}
            onInput={setText}
            placeholder={en.policies(loaded.data.length)}
          />
          <Card>
            <ul class="links">
              {names.map((name) => (
                <li key={name}>
                  <a href={href(`policies/${name}`)}>
                    <Icon name="shield" />
                    <span class="mono grow">{visible(name)}</span>
                    {BUILTIN.includes(name) && <Tag>{en.builtIn}</Tag>}
                    {me.value?.policies.includes(name) && <Tag kind="accent">{en.yours}</Tag>}
                  </a>
                </li>
              ))}
            </ul>
          </Card>
          {isFresh && (
            <Card>
              <Empty
                icon="shield"
                title={en.beginWithOneOfThree}
                action={
                  <>
                    {Object.entries(TEMPLATES).map(([key, [label]]) => (
                      <LinkButton key={key} href={href(`policies/${key}`, { new: 1, from: key })}>
                        {label}
                      </LinkButton>
                    ))}
                  </>
                }
              >
                {en.aTemplateIsATextTo}
              </Empty>
            </Card>
          )}
        </>
      )}
    </Page>
  );
}

function New({ close }: { close: (name?: string) => void }) {
  const [name, setName] = useState('');
  // Whether a path can have the name is for the server to say, before somebody writes a policy for it; what else it asks of a name it says when one is saved.
  const run = useAction(async () => {
    const wanted = name.toLowerCase();
    if (new TextEncoder().encode(wanted).length > NAME_BYTES_MAX)
      throw new Error(en.policyNameIsLongerThan(NAME_BYTES_MAX));
    try {
      await call('GET', `sys/policies/acl/${wanted}`);
    } catch (error) {
      if (!(error instanceof ApiError) || (error.status !== 403 && error.status !== 404))
        throw error;
    }
    close(wanted);
  });
  return (
    <Form name="policy/new" onSubmit={() => (name ? run.run() : undefined)}>
      <Sheet
        title={en.newPolicy}
        actions={
          <>
            <Button onClick={() => close()}>{common.cancel}</Button>
            <Button kind="primary" type="submit" busy={run.busy} disabled={!name}>
              {common.goOn}
            </Button>
          </>
        }
      >
        <Field
          label={common.name}
          value={name}
          onInput={setName}
          mono
          autofocus
          hint={en.lowerCase}
        />
        <FormError error={run.error} />
      </Sheet>
    </Form>
  );
}

export function Policies() {
  const name = route.value.path.replace(/^policies\/?/, '');
  if (name === '') return <List />;
  if (name === 'simulate') return <Simulate />;
  return <Policy key={name} name={name} />;
}

function Policy({ name }: { name: string }) {
  const { query } = route.value;
  const isNew = query.has('new');
  // A name may be taken: what is there is shown and changed, never replaced unseen.
  const loaded = useLoad(async () => {
    const there = isNew
      ? await readPolicy(name)
      : (await call<{ policy: string }>('GET', `sys/policies/acl/${name}`)).data.policy;
    return { there, start: there ?? TEMPLATES[query.get('from') ?? '']?.[1] ?? '' };
  }, [name, isNew]);
  if (loaded.error)
    return <Failed error={loaded.error} retry={loaded.reload} path={`sys/policies/acl/${name}`} />;
  if (!loaded.data) return <Loading rows={8} />;
  const { there, start } = loaded.data;
  return (
    <PolicyEditor
      name={name}
      saved={there ?? ''}
      start={start}
      isNew={there === undefined}
      reload={loaded.reload}
    />
  );
}
export const readPolicy = async (name: string): Promise<string | undefined> =>
  (await tryCall<{ policy: string }>('GET', `sys/policies/acl/${name}`))?.data.policy;
