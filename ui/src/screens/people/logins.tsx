// Login methods: the list, and one with its users or roles.
import * as common from '../../en/common.ts';
import * as en from '../../en/screens/people.ts';
import { useState } from 'preact/hooks';
import { call, tryCall } from '../../lib/api.ts';
import { copySecret } from '../../lib/clipboard.ts';
import { useAction, useLoad } from '../../lib/load.ts';
import type { MethodKind } from '../../lib/logins.ts';
import { go, href } from '../../lib/router.ts';
import { span, visible } from '../../lib/time.ts';
import { toast } from '../../lib/toasts.ts';
import { confirm, open, Sheet } from '../../parts/dialog.tsx';
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
  Note,
  Page,
  Select,
  Tag,
} from '../../parts/ui.tsx';
import { type Info, listing } from './listing.ts';
import { CONFIG, Configure } from './logins-config.tsx';

export function Logins({ mount }: { mount: string }) {
  const loaded = useLoad(
    mount ? undefined : async () => (await call<Info>('GET', 'sys/auth')).data,
    [mount],
  );
  if (mount) return <Method mount={mount.replace(/\/$/, '')} />;
  if (loaded.error) return <Failed error={loaded.error} retry={loaded.reload} path="sys/auth" />;
  if (!loaded.data) return <Loading />;
  // A method says nothing before it is set up: what comes next is its own page.
  const enable = (): void =>
    void open<string>((close) => <Enable close={close} />).then((made) => {
      if (made) void go(href(`people/logins/${made}`));
    });
  return (
    <Page
      title={en.loginMethods}
      actions={
        <Button
          kind="primary"
          icon="plus"
          need={{ path: 'sys/auth/new', cap: ['create', 'update', 'sudo'] }}
          onClick={enable}
        >
          {en.enableOne}
        </Button>
      }
    >
      <Card>
        <ul class="links">
          {Object.entries(loaded.data)
            .filter(([path]) => path.endsWith('/'))
            .map(([path, one]) => (
              <li key={path}>
                <a href={href(`people/logins/${path}`)}>
                  <Icon name={one['type'] === 'token' ? 'key' : 'user'} />
                  <span class="grow">
                    <b class="mono">{path}</b>{' '}
                    <span class="dim">{visible(one['description'] ?? '')}</span>
                  </span>
                  {one['config']?.listing_visibility === 'unauth' && (
                    <Tag kind="accent">{en.onTheLoginPage}</Tag>
                  )}
                  <Tag>{one['type']}</Tag>
                </a>
              </li>
            ))}
        </ul>
      </Card>
    </Page>
  );
}

/** What the form for a new method calls them, in its order. */
const NAMES: Record<MethodKind, string> = {
  userpass: en.userNameAndPassword,
  approle: en.approle,
  jwt: en.jwt,
  oidc: en.oidc,
  cert: en.tlsCertificates,
  ldap: en.ldap,
  github: en.github,
  okta: en.okta,
  kubernetes: en.kubernetes,
};

function Enable({ close }: { close: (made?: string) => void }) {
  const [type, setType] = useState('userpass');
  const [path, setPath] = useState('');
  const [isPublic, setPublic] = useState<'hidden' | 'unauth'>('unauth');
  const run = useAction(async () => {
    await call('POST', `sys/auth/${path || type}`, {
      body: { type, config: { listing_visibility: isPublic } },
    });
    toast(en.theLoginMethodIsOn);
    close(`${path || type}/`);
  });
  return (
    <Form name="logins/enable" onSubmit={() => run.run()}>
      <Sheet
        title={en.enableALoginMethod}
        actions={
          <>
            <Button onClick={() => close()}>{common.cancel}</Button>
            <Button kind="primary" type="submit" busy={run.busy}>
              {en.enable}
            </Button>
          </>
        }
      >
        <Select
          label={common.kind}
          value={type}
          onChange={setType}
          options={Object.entries(NAMES)}
        />
        <Field label={common.path} value={path} onInput={setPath} mono placeholder={type} />
        <Select
          label={en.onTheLoginPage2}
          value={isPublic}
          onChange={setPublic}
          options={[
            ['unauth', en.shownToEverybody],
            ['hidden', en.byItsNameOnly],
          ]}
        />
        <FormError error={run.error} />
      </Sheet>
    </Form>
  );
}

const ROLES: Record<string, [string, string]> = {
  userpass: ['users', en.user],
  approle: ['role', common.role],
  jwt: ['role', common.role],
  oidc: ['role', common.role],
  cert: ['certs', en.certificate],
  kubernetes: ['role', common.role],
  ldap: ['groups', en.groupOfIt],
  okta: ['groups', en.groupOfIt],
  github: ['map/teams', en.team],
} satisfies Record<MethodKind, [string, string]>;

function Method({ mount }: { mount: string }) {
  const loaded = useLoad(async () => {
    const type = ((await call<Info>('GET', 'sys/auth')).data[`${mount}/`]?.['type'] ??
      '') as string;
    const noun = ROLES[type]?.[0];
    const config = (await tryCall<Record<string, any>>('GET', `auth/${mount}/config`))?.data;
    return { type, noun, names: noun ? (await listing(`auth/${mount}/${noun}`)).keys : [], config };
  }, [mount]);
  const data = loaded.data;
  const remove = useAction(async (name: string) => {
    if (
      await confirm({
        title: en.deleteIt(name),
        text: en.tokensThatItMadeLiveOn,
        action: common.deleteIt,
        danger: true,
        typed: name,
      })
    ) {
      await call('DELETE', `auth/${mount}/${data?.noun}/${name}`);
      loaded.reload();
    }
  });
  const secretId = useAction(async (name: string) => {
    const { data: made } = await call<{ secret_id: string; secret_id_ttl: number }>(
      'POST',
      `auth/${mount}/role/${name}/secret-id`,
      { body: {} },
    );
    const role = await tryCall<{ role_id: string }>('GET', `auth/${mount}/role/${name}/role-id`);
    void open<void>((close) => (
      <Sheet
        title={en.aSecretId}
        actions={
          <Button kind="primary" onClick={() => close()}>
            {common.done}
          </Button>
        }
      >
        <Note kind="warn">
          {en.itIsShownOnce(made.secret_id_ttl ? en.andLivesFor(span(made.secret_id_ttl)) : '')}
        </Note>
        <dl class="kv">
          <dt>{en.roleId}</dt>
          <dd class="mono">{role?.data.role_id}</dd>
          <dt>{en.secretId}</dt>
          <dd class="mono">{made.secret_id}</dd>
        </dl>
        <div class="row">
          <Button icon="copy" onClick={() => void copySecret(made.secret_id, en.secretId)}>
            {en.copyTheSecretId}
          </Button>
        </div>
      </Sheet>
    ));
  });
  if (loaded.error) return <Failed error={loaded.error} retry={loaded.reload} />;
  if (!data) return <Loading />;
  const label = ROLES[data.type]?.[1] ?? common.role;
  const add = (): void =>
    void open<void>((close) => (
      <Member
        mount={mount}
        noun={data.noun ?? ''}
        type={data.type}
        close={() => {
          close();
          loaded.reload();
        }}
      />
    ));
  const configure = (): void =>
    void open<void>((close) => (
      <Configure
        mount={mount}
        type={data.type}
        now={data.config ?? {}}
        close={(isDone) => {
          close();
          if (isDone) loaded.reload();
        }}
      />
    ));
  const isBare =
    CONFIG[data.type] !== undefined && !CONFIG[data.type]?.some(({ name }) => data.config?.[name]);
  return (
    <Page
      title={<span class="mono">{mount}/</span>}
      sub={data.type}
      actions={
        <>
          <LinkButton href={href('people/logins/')} icon="user">
            {en.all}
          </LinkButton>
          <LinkButton href={href('login', { with: mount })} icon="play">
            {en.testALogin}
          </LinkButton>
          {CONFIG[data.type] && (
            <Button
              icon="cog"
              need={{ path: `auth/${mount}/config`, cap: ['update', 'create'] }}
              onClick={configure}
            >
              {en.setUp}
            </Button>
          )}
          {data.noun && (
            <Button
              kind="primary"
              icon="plus"
              need={{ path: `auth/${mount}/${data.noun}/new`, cap: ['create', 'update'] }}
              onClick={add}
            >
              {en.newIt(label.toLowerCase())}
            </Button>
          )}
        </>
      }
    >
      <FormError error={remove.error ?? secretId.error} />
      {isBare && (
        <Note
          kind="warn"
          action={
            <Button size="sm" onClick={configure}>
              {en.setUp}
            </Button>
          }
        >
          {en.nobodyLogsInHereBeforeIt}
        </Note>
      )}
      {data.noun &&
        (data.names.length === 0 ? (
          <Card>
            <Empty
              icon="user"
              title={en.noYet(label.toLowerCase())}
              action={
                <Button
                  icon="plus"
                  need={{ path: `auth/${mount}/${data.noun}/new`, cap: ['create', 'update'] }}
                  onClick={add}
                >
                  {en.newIt(label.toLowerCase())}
                </Button>
              }
            >
              {en.itSaysWhichPoliciesALogin}
            </Empty>
          </Card>
        ) : (
          <Card>
            <table class="grid">
              <tbody>
                {data.names.map((name) => (
                  <tr key={name}>
                    <td>
                      <b class="mono">{visible(name)}</b>
                    </td>
                    <td class="right">
                      <span class="cell-acts">
                        {data.type === 'approle' && (
                          <Button
                            size="sm"
                            icon="key"
                            busy={secretId.busy}
                            onClick={() => void secretId.run(name)}
                          >
                            {en.secretId}
                          </Button>
                        )}
                        <Button
                          size="sm"
                          kind="ghost"
                          icon="trash"
                          label={en.deleteIt2(name)}
                          need={{ path: `auth/${mount}/${data.noun}/${name}`, cap: 'delete' }}
                          onClick={() => void remove.run(name)}
                        />
                      </span>
                    </td>
                  </tr>
                ))}
              </tbody>
            </table>
          </Card>
        ))}
      {data.config && (
        <Card title={en.configuration} pad>
          <dl class="kv">
            {Object.entries(data.config).map(([key, value]) => (
              <>
                <dt>{key.replaceAll('_', ' ')}</dt>
                <dd class="mono">
                  {visible(typeof value === 'string' ? value || '–' : JSON.stringify(value))}
                </dd>
              </>
            ))}
          </dl>
        </Card>
      )}
    </Page>
  );
}

/** Methods that write names in lower case. */
const FOLDED: readonly string[] = [
  'userpass',
  'approle',
  'ldap',
  'okta',
  'github',
] satisfies MethodKind[];

function Member({
  mount,
  noun,
  type,
  close,
}: {
  mount: string;
  noun: string;
  type: string;
  close: () => void;
}) {
  const [name, setName] = useState('');
  const [password, setPassword] = useState('');
  const [policies, setPolicies] = useState('');
  const [extra, setExtra] = useState('{}');
  // The server takes a name that is there for a change of what has it.
  const taken = useLoad(async () => (await listing(`auth/${mount}/${noun}`)).keys, [mount, noun]);
  const names = policies
    .split(',')
    .map((one) => one.trim())
    .filter(Boolean);
  const isMap = type === 'ldap' || type === 'okta' || type === 'github';
  const bodyOf = (): object =>
    type === 'github'
      ? { value: names.join(',') }
      : isMap
        ? { policies: names }
        : {
            ...(JSON.parse(extra || '{}') as object),
            token_policies: names,
            ...(type === 'userpass' ? { password } : {}),
          };
  const run = useAction(async () => {
    if (taken.data?.includes(FOLDED.includes(type) ? name.toLowerCase() : name))
      throw new Error(common.thereIsOneWithThisName);
    await call('POST', `auth/${mount}/${noun}/${name}`, { body: bodyOf() });
    toast(en.isMade(name));
    close();
  });
  return (
    <Form name="logins/member" onSubmit={() => run.run()}>
      <Sheet
        title={en.newIn(mount)}
        actions={
          <>
            <Button onClick={close}>{common.cancel}</Button>
            <Button
              kind="primary"
              type="submit"
              busy={run.busy}
              disabled={!name || (!taken.data && !taken.error)}
            >
              {common.makeIt}
            </Button>
          </>
        }
      >
        <Field label={common.name} value={name} onInput={setName} mono autofocus />
        {type === 'userpass' && (
          <Field label={en.password} value={password} onInput={setPassword} masked mono />
        )}
        <Field label={common.policiesWithCommas} value={policies} onInput={setPolicies} mono />
        {type !== 'userpass' && !isMap && (
          <Field label={en.otherSettingsJson} value={extra} onInput={setExtra} mono rows={4} />
        )}
        <FormError error={run.error} />
      </Sheet>
    </Form>
  );
}
