// People and apps: entities, groups, login methods, and who is locked out.
import * as common from '../en/common.ts';
import * as en from '../en/screens/people.ts';
import { useState } from 'preact/hooks';
import { call, tryCall } from '../lib/api.ts';
import { copySecret } from '../lib/clipboard.ts';
import { useAction, useLoad } from '../lib/load.ts';
import { go, href, route } from '../lib/router.ts';
import { plural, span, visible } from '../lib/time.ts';
import { toast } from '../lib/toasts.ts';
import { confirm, open, Sheet } from '../parts/dialog.tsx';
import { Icon } from '../parts/icons.tsx';
import { CONFIG, Configure } from './logins-config.tsx';
import { GroupForm, Merge } from './people-edit.tsx';
import { Form } from '../parts/form.tsx';
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
  Tabs,
  Tag,
} from '../parts/ui.tsx';

const PARTS = [
  ['entities', en.entities],
  ['groups', en.groups],
  ['logins', en.loginMethods],
  ['locked', en.lockedOut],
] as const;
const ROWS_MAX = 500;

export function People() {
  const [, part = 'entities', ...rest] = route.value.path.split('/');
  const id = rest.join('/');
  return (
    <>
      <Tabs
        label={en.peopleAndApps}
        current={part}
        tabs={PARTS.map(([key, label]) => ({ key, label, href: href(`people/${key}/`) }))}
      />
      {part === 'groups' ? (
        <Groups id={id} />
      ) : part === 'logins' ? (
        <Logins mount={id} />
      ) : part === 'locked' ? (
        <Locked />
      ) : (
        <Entities id={id} />
      )}
    </>
  );
}

type Info = Record<string, Record<string, any>>;
async function listing(path: string): Promise<{ keys: string[]; info: Info }> {
  const reply = await call<{ keys?: string[]; key_info?: Info }>('LIST', path).catch(
    (error: { status?: number }) => {
      if (error.status === 404) return undefined;
      throw error;
    },
  );
  return { keys: reply?.data.keys ?? [], info: reply?.data.key_info ?? {} };
}

function Entities({ id }: { id: string }) {
  const loaded = useLoad(id ? undefined : () => listing('identity/entity/id'), [id]);
  const [text, setText] = useState('');
  if (id) return <Entity key={id} id={id} />;
  if (loaded.error)
    return (
      <Failed error={loaded.error} retry={loaded.reload} path="identity/entity/id" cap="list" />
    );
  if (!loaded.data)
    return (
      <Page title={en.entities}>
        <Loading />
      </Page>
    );
  const { keys, info } = loaded.data;
  const shown = keys.filter((key) =>
    `${info[key]?.['name'] ?? ''} ${key} ${JSON.stringify(info[key]?.['aliases'] ?? '')}`
      .toLowerCase()
      .includes(text.toLowerCase()),
  );
  return (
    <Page
      title={en.entities}
      sub={en.eachWithTheLoginsItHas(plural(keys.length, en.personOrApp, en.peopleAndApps2))}
    >
      {keys.length === 0 ? (
        <Card>
          <Empty icon="users" title={en.nobodyYet}>
            {en.anEntityIsMadeAtSomebodys}
          </Empty>
        </Card>
      ) : (
        <>
          <Field label={common.filter} value={text} onInput={setText} />
          <Card>
            <div class="scroll-x" tabIndex={0} role="region" aria-label={en.entities}>
              <table class="grid">
                <thead>
                  <tr>
                    <th>{common.name}</th>
                    <th>{en.logins}</th>
                  </tr>
                </thead>
                <tbody>
                  {shown.slice(0, ROWS_MAX).map((key) => (
                    <tr key={key}>
                      <td>
                        <a href={href(`people/entities/${key}`)}>
                          <b>{visible(info[key]?.['name'] ?? key)}</b>
                        </a>
                        <small class="dim mono">{key}</small>
                      </td>
                      <td>
                        {((info[key]?.['aliases'] ?? []) as Record<string, any>[]).map((alias) => (
                          <Tag>
                            {visible(
                              [alias['name'], alias['mount_path'] || alias['mount_type']]
                                .filter(Boolean)
                                .join(' · '),
                            )}
                          </Tag>
                        ))}
                      </td>
                    </tr>
                  ))}
                </tbody>
              </table>
            </div>
            {shown.length > ROWS_MAX && (
              <p class="pad dim">{en.filterToSeeThem(plural(shown.length - ROWS_MAX, en.other))}</p>
            )}
          </Card>
        </>
      )}
    </Page>
  );
}

function Entity({ id }: { id: string }) {
  const loaded = useLoad(async () => {
    const { data } = await call<Record<string, any>>('GET', `identity/entity/id/${id}`);
    const groups = await Promise.all(
      ((data['group_ids'] ?? []) as string[]).map(
        async (group) =>
          (await tryCall<Record<string, any>>('GET', `identity/group/id/${group}`))?.data ?? {
            id: group,
            name: group,
            policies: [],
          },
      ),
    );
    return { data, groups };
  }, [id]);
  const disable = useAction(async () => {
    await call('POST', `identity/entity/id/${id}`, {
      body: { disabled: !loaded.data?.data['disabled'] },
    });
    loaded.reload();
  });
  if (loaded.error) return <Failed error={loaded.error} retry={loaded.reload} />;
  if (!loaded.data) return <Loading />;
  const { data, groups } = loaded.data;
  return (
    <Page
      title={visible(data['name'] ?? id)}
      sub={<span class="mono">{id}</span>}
      actions={
        <>
          <LinkButton href={href('people/entities/')} icon="users">
            {en.all}
          </LinkButton>
          <Button
            icon="swap"
            need={{ path: 'identity/entity/merge', cap: ['update', 'create'] }}
            onClick={() =>
              void open<boolean>((close) => <Merge into={data} close={close} />).then((isDone) => {
                if (isDone) loaded.reload();
              })
            }
          >
            {en.merge}
          </Button>
          <Button
            icon="lock"
            busy={disable.busy}
            need={{ path: `identity/entity/id/${id}`, cap: ['update'] }}
            onClick={() => void disable.run()}
          >
            {data['disabled'] ? en.enable : common.disable}
          </Button>
        </>
      }
    >
      <FormError error={disable.error} />
      <div class="two">
        <Card title={en.policiesAndHowItCameBy} pad>
          <ul class="stack">
            {((data['policies'] ?? []) as string[]).map((name) => (
              <li class="row">
                <a class="tag" href={href(`policies/${name}`)}>
                  {name}
                </a>
                <span class="dim">{en.byItself}</span>
              </li>
            ))}
            {groups.flatMap((group) =>
              ((group['policies'] ?? []) as string[]).map((name) => (
                <li class="row">
                  <a class="tag" href={href(`policies/${name}`)}>
                    {name}
                  </a>
                  <span class="dim">{en.throughTheGroup(visible(group['name']))}</span>
                </li>
              )),
            )}
            {((data['policies'] ?? []) as string[]).length + groups.length === 0 && (
              <li class="dim">{en.noneByItselfLoginsMayBring}</li>
            )}
          </ul>
        </Card>
        <Card title={en.logins}>
          <ul class="links">
            {((data['aliases'] ?? []) as Record<string, any>[]).map((alias) => (
              <li>
                <span class="cell">
                  <Icon name="user" />
                  <span class="grow">{visible(alias['name'])}</span>
                  <span class="dim mono">{alias['mount_path']}</span>
                </span>
              </li>
            ))}
          </ul>
        </Card>
      </div>
      <Card title={en.metadata} pad>
        <dl class="kv">
          {Object.entries((data['metadata'] ?? {}) as Record<string, string>).map(
            ([key, value]) => (
              <>
                <dt>{visible(key)}</dt>
                <dd>{visible(value)}</dd>
              </>
            ),
          )}
          {Object.keys(data['metadata'] ?? {}).length === 0 && <dd class="dim">{common.none}</dd>}
        </dl>
      </Card>
    </Page>
  );
}

function Groups({ id }: { id: string }) {
  const list = useLoad(id ? undefined : () => listing('identity/group/id'), [id]);
  const one = useLoad(
    id
      ? async () => (await call<Record<string, any>>('GET', `identity/group/id/${id}`)).data
      : undefined,
    [id],
  );
  if (list.error ?? one.error)
    return <Failed error={list.error ?? one.error} path="identity/group/id" cap="list" />;
  if (id)
    return one.data ? (
      <Page
        title={visible(one.data['name'])}
        sub={<span class="mono">{id}</span>}
        actions={
          <>
            <LinkButton href={href('people/groups/')} icon="users">
              {en.all}
            </LinkButton>
            <Button
              icon="edit"
              need={{ path: `identity/group/id/${id}`, cap: ['update', 'create'] }}
              onClick={() =>
                void open<string>((close) => (
                  <GroupForm group={one.data as Record<string, any>} close={close} />
                )).then((done) => {
                  if (done !== undefined) one.reload();
                })
              }
            >
              {en.change}
            </Button>
          </>
        }
      >
        <Card pad>
          <dl class="kv">
            <dt>{common.kind}</dt>
            <dd>{one.data['type']}</dd>
            <dt>{common.policies}</dt>
            <dd class="caps">
              {((one.data['policies'] ?? []) as string[]).map((name) => (
                <a class="tag" href={href(`policies/${name}`)}>
                  {name}
                </a>
              ))}
            </dd>
            <dt>{en.members}</dt>
            <dd>
              {((one.data['member_entity_ids'] ?? []) as string[]).map((member) => (
                <a class="link mono" href={href(`people/entities/${member}`)}>
                  {member}
                </a>
              ))}
            </dd>
            <dt>{en.groupsInIt}</dt>
            <dd>
              {((one.data['member_group_ids'] ?? []) as string[]).map((member) => (
                <a class="link mono" href={href(`people/groups/${member}`)}>
                  {member}
                </a>
              ))}
            </dd>
          </dl>
        </Card>
      </Page>
    ) : (
      <Loading />
    );
  if (!list.data) return <Loading />;
  const make = (
    <Button
      kind="primary"
      icon="plus"
      need={{ path: 'identity/group', cap: ['update', 'create'] }}
      onClick={() =>
        void open<string>((close) => <GroupForm close={close} />).then((done) => {
          if (done) void go(href(`people/groups/${done}`));
        })
      }
    >
      {en.newGroup}
    </Button>
  );
  return (
    <Page title={en.groups} sub={en.givePoliciesToManyAtOnce} actions={make}>
      {list.data.keys.length === 0 ? (
        <Card>
          <Empty
            icon="users"
            title={en.noGroupYet}
            action={make}
            command="kallisto write identity/group name=payments policies=payments-dev"
          >
            {en.whoIsInItHasIts}
          </Empty>
        </Card>
      ) : (
        <Card>
          <ul class="links">
            {list.data.keys.map((key) => (
              <li key={key}>
                <a href={href(`people/groups/${key}`)}>
                  <Icon name="users" />
                  <span class="grow">{visible(list.data?.info[key]?.['name'] ?? key)}</span>
                  <span class="dim">
                    {plural(Number(list.data?.info[key]?.['num_member_entities'] ?? 0), en.member)}
                  </span>
                </a>
              </li>
            ))}
          </ul>
        </Card>
      )}
    </Page>
  );
}

function Logins({ mount }: { mount: string }) {
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
          options={[
            ['userpass', en.userNameAndPassword],
            ['approle', en.approle],
            ['jwt', en.jwt],
            ['oidc', en.oidc],
            ['cert', en.tlsCertificates],
            ['ldap', en.ldap],
            ['github', en.github],
            ['okta', en.okta],
            ['kubernetes', en.kubernetes],
          ]}
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
};

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
const FOLDED = ['userpass', 'approle', 'ldap', 'okta', 'github'];

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

function Locked() {
  const loaded = useLoad(
    async () => (await call<Record<string, any>>('GET', 'sys/locked-users')).data,
    [],
  );
  // The answer has the namespaces below too; each unlocks its own.
  const unlock = useAction(async (ns: string, accessor: string, name: string) => {
    await call('POST', `sys/locked-users/${accessor}/unlock/${name}`, {
      ns: ns.replace(/\/$/, ''),
      body: {},
    });
    toast(en.mayTryAgain(name));
    loaded.reload();
  });
  if (loaded.error)
    return <Failed error={loaded.error} retry={loaded.reload} path="sys/locked-users" cap="sudo" />;
  if (!loaded.data) return <Loading />;
  const rows = ((loaded.data['by_namespace'] ?? []) as Record<string, any>[]).flatMap((ns) =>
    ((ns['mount_accessors'] ?? []) as Record<string, any>[]).flatMap((mount) =>
      ((mount['alias_identifiers'] ?? []) as string[]).map((name) => ({
        ns: ns['namespace_path'] as string,
        accessor: mount['mount_accessor'] as string,
        name,
      })),
    ),
  );
  return (
    <Page title={en.lockedOut} sub={en.whoeverGaveTooManyWrongPasswords}>
      <FormError error={unlock.error} />
      {rows.length === 0 ? (
        <Card>
          <Empty
            icon="lock"
            title={en.nobodyIsLockedOut}
            action={
              <Button icon="undo" onClick={loaded.reload}>
                {en.lookAgain}
              </Button>
            }
          />
        </Card>
      ) : (
        <Card>
          <table class="grid">
            <thead>
              <tr>
                <th>{common.name}</th>
                <th>{common.mount}</th>
                <th>{common.namespace}</th>
                <th>
                  <span class="sr">{common.actions}</span>
                </th>
              </tr>
            </thead>
            <tbody>
              {rows.map((row) => (
                <tr key={row.accessor + row.name}>
                  <td>
                    <b>{visible(row.name)}</b>
                  </td>
                  <td class="mono">{row.accessor}</td>
                  <td class="mono">{row.ns || common.root}</td>
                  <td class="right">
                    <Button
                      size="sm"
                      busy={unlock.busy}
                      onClick={() => void unlock.run(row.ns, row.accessor, row.name)}
                    >
                      {en.unlock}
                    </Button>
                  </td>
                </tr>
              ))}
            </tbody>
          </table>
        </Card>
      )}
    </Page>
  );
}
