// Groups: the list, and one with its members.
import * as common from '../../en/common.ts';
import * as en from '../../en/screens/people.ts';
import { call } from '../../lib/api.ts';
import { useLoad } from '../../lib/load.ts';
import { go, href } from '../../lib/router.ts';
import { plural, visible } from '../../lib/time.ts';
import { open } from '../../parts/dialog.tsx';
import { Icon } from '../../parts/icons.tsx';
import { Button, Card, Empty, Failed, LinkButton, Loading, Page } from '../../parts/ui.tsx';
import { GroupForm } from './edit.tsx';
import { listing } from './listing.ts';

export function Groups({ id }: { id: string }) {
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
