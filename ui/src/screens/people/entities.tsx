// Entities: the list, and one with its logins, groups and policies.
import * as common from '../../en/common.ts';
import * as en from '../../en/screens/people.ts';
import { useState } from 'preact/hooks';
import { call, tryCall } from '../../lib/api.ts';
import { useAction, useLoad } from '../../lib/load.ts';
import { href } from '../../lib/router.ts';
import { plural, visible } from '../../lib/time.ts';
import { open } from '../../parts/dialog.tsx';
import { Icon } from '../../parts/icons.tsx';
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
import { Merge } from './edit.tsx';
import { listing, ROWS_MAX } from './listing.ts';

export function Entities({ id }: { id: string }) {
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
