// Changes to people and groups: merging two entities, with what each side has; making and changing a group.
import * as common from '../../en/common.ts';
import * as en from '../../en/screens/people-edit.ts';
import { useState } from 'preact/hooks';
import { call, tryCall } from '../../lib/api.ts';
import { useAction, useLoad } from '../../lib/load.ts';
import { plural, visible } from '../../lib/time.ts';
import { toast } from '../../lib/toasts.ts';
import { Sheet } from '../../parts/dialog.tsx';
import { Form } from '../../parts/form.tsx';
import { Button, Card, Check, Field, FormError, Loading, Note, Tag } from '../../parts/ui.tsx';

type Data = Record<string, any>;
interface Named {
  id: string;
  name: string;
}
const SHOWN_MAX = 50;

/** Everybody, or every group, by name. */
async function named(path: string): Promise<Named[]> {
  const reply = await tryCall<{ keys?: string[]; key_info?: Record<string, Data> }>('LIST', path);
  return (reply?.data.keys ?? [])
    .map((id) => ({ id, name: String(reply?.data.key_info?.[id]?.['name'] ?? id) }))
    .sort((a, b) => a.name.localeCompare(b.name));
}

const side = (data: Data): string[] => [
  `${plural(((data['aliases'] ?? []) as unknown[]).length, en.login)}: ${((data['aliases'] ?? []) as Data[]).map((alias) => `${alias['name']} (${alias['mount_path']})`).join(', ') || common.none}`,
  `policies: ${((data['policies'] ?? []) as string[]).join(', ') || common.none}`,
  `metadata: ${
    Object.entries((data['metadata'] ?? {}) as Record<string, string>)
      .map(([key, value]) => `${key}=${value}`)
      .join(', ') || common.none
  }`,
];

/** Merges another entity into this one: its logins, policies and groups come along, its id, name and metadata do not. */
export function Merge({ into, close }: { into: Data; close: (isDone: boolean) => void }) {
  const all = useLoad(() => named('identity/entity/id'), []);
  const [text, setText] = useState('');
  const [from, setFrom] = useState<Data | undefined>(undefined);
  const choose = useAction(async (id: string) => {
    setFrom((await call<Data>('GET', `identity/entity/id/${id}`)).data);
  });
  const run = useAction(async () => {
    await call('POST', 'identity/entity/merge', {
      body: { from_entity_ids: [from?.['id']], to_entity_id: into['id'] },
    });
    toast(en.isMerged(from?.['name']));
    close(true);
  });
  const shown = (all.data ?? [])
    .filter(
      (one) =>
        one.id !== into['id'] && `${one.name} ${one.id}`.toLowerCase().includes(text.toLowerCase()),
    )
    .slice(0, SHOWN_MAX);
  const Side = ({ title, data }: { title: string; data: Data }) => (
    <Card title={title} pad>
      <b>{visible(data['name'])}</b>
      <small class="dim mono">{data['id']}</small>
      {side(data).map((line) => (
        <p class="soft">{visible(line)}</p>
      ))}
    </Card>
  );
  return (
    <Form name="entities/merge" onSubmit={() => (from ? run.run() : undefined)}>
      <Sheet
        title={en.mergeInto(visible(into['name']))}
        actions={
          <>
            <Button onClick={() => close(false)}>{common.cancel}</Button>
            {from && <Button onClick={() => setFrom(undefined)}>{en.another}</Button>}
            <Button kind="danger" type="submit" busy={run.busy} disabled={!from}>
              {en.merge}
            </Button>
          </>
        }
      >
        {!from ? (
          <>
            <Field label={en.whoIsTheSamePersonOr} value={text} onInput={setText} autofocus />
            {!all.data ? (
              <Loading rows={3} />
            ) : (
              <ul class="links">
                {shown.map((one) => (
                  <li key={one.id}>
                    <button type="button" class="cell" onClick={() => void choose.run(one.id)}>
                      <span class="grow">{visible(one.name)}</span>
                      <span class="dim mono">{one.id.slice(0, 8)}</span>
                    </button>
                  </li>
                ))}
                {shown.length === 0 && <li class="pad dim">{en.nobodyElse}</li>}
              </ul>
            )}
          </>
        ) : (
          <>
            <div class="two">
              <Side title={en.itGoes} data={from} />
              <Side title={en.itStays} data={into} />
            </div>
            <Note kind="warn">
              {en.loginsPoliciesAndGroupsComeAlong} <b>{visible(from['name'])}</b>{' '}
              {en.areLostAndTemplatesThatName}
            </Note>
          </>
        )}
        <FormError error={choose.error ?? run.error} />
      </Sheet>
    </Form>
  );
}

const list = (text: string): string[] =>
  text
    .split(',')
    .map((one) => one.trim())
    .filter(Boolean);

/** Makes a group, or changes one. */
export function GroupForm({ group, close }: { group?: Data; close: (id?: string) => void }) {
  const people = useLoad(() => named('identity/entity/id'), []);
  const groups = useLoad(() => named('identity/group/id'), []);
  const [name, setName] = useState<string>(group?.['name'] ?? '');
  const [policies, setPolicies] = useState(((group?.['policies'] ?? []) as string[]).join(', '));
  const [members, setMembers] = useState<string[]>(
    (group?.['member_entity_ids'] ?? []) as string[],
  );
  const [inner, setInner] = useState<string[]>((group?.['member_group_ids'] ?? []) as string[]);
  const [text, setText] = useState('');
  const isExternal = group?.['type'] === 'external';
  const run = useAction(async () => {
    // The server takes a name that is there for a change of that group, whatever its case.
    if (!group && groups.data?.some((one) => one.name.toLowerCase() === name.trim().toLowerCase()))
      throw new Error(common.thereIsOneWithThisName);
    // Members of an external group are whoever its login says.
    const body = {
      name,
      policies: list(policies),
      ...(isExternal ? {} : { member_entity_ids: members, member_group_ids: inner }),
    };
    const { data } = await call<{ id?: string }>(
      'POST',
      group ? `identity/group/id/${group['id']}` : 'identity/group',
      { body },
    );
    toast(group ? en.theGroupIsChanged : en.theGroupIsMade);
    close(String(data.id ?? group?.['id'] ?? ''));
  });
  const toggle = (from: string[], id: string): string[] =>
    from.includes(id) ? from.filter((one) => one !== id) : [...from, id];
  const fits = (one: Named): boolean =>
    `${one.name} ${one.id}`.toLowerCase().includes(text.toLowerCase());
  return (
    <Form name="groups/edit" onSubmit={() => run.run()}>
      <Sheet
        title={group ? en.change(visible(group['name'])) : en.newGroup}
        actions={
          <>
            <Button onClick={() => close()}>{common.cancel}</Button>
            <Button
              kind="primary"
              type="submit"
              busy={run.busy}
              disabled={!name.trim() || (!group && !groups.data)}
            >
              {group ? common.save : common.makeIt}
            </Button>
          </>
        }
      >
        <Field label={common.name} value={name} onInput={setName} autofocus required />
        <Field label={common.policiesWithCommas} value={policies} onInput={setPolicies} mono />
        {isExternal ? (
          <Note>{en.itsMembersAreWhoeverItsLogin}</Note>
        ) : (
          <>
            <Field
              label={en.findMembers}
              value={text}
              onInput={setText}
              hint={en.inIt(plural(members.length, en.member), plural(inner.length, en.group))}
            />
            <div class="picks" tabIndex={0} role="group" aria-label={en.members}>
              {(people.data ?? [])
                .filter(fits)
                .slice(0, SHOWN_MAX)
                .map((one) => (
                  <Check
                    key={one.id}
                    label={visible(one.name)}
                    checked={members.includes(one.id)}
                    onChange={() => setMembers(toggle(members, one.id))}
                  />
                ))}
              {(groups.data ?? [])
                .filter((one) => one.id !== group?.['id'] && fits(one))
                .slice(0, SHOWN_MAX)
                .map((one) => (
                  <Check
                    key={one.id}
                    label={
                      <>
                        {visible(one.name)} <Tag>{en.group}</Tag>
                      </>
                    }
                    checked={inner.includes(one.id)}
                    onChange={() => setInner(toggle(inner, one.id))}
                  />
                ))}
            </div>
          </>
        )}
        <FormError error={run.error} />
      </Sheet>
    </Form>
  );
}
