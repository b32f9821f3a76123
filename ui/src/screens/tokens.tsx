// Tokens as a tree by parent (contract E7); without that flat, by accessor. Revoking says first how many end with one.
import * as common from '../en/common.ts';
import * as en from '../en/screens/tokens.ts';
import { useEffect, useState } from 'preact/hooks';
import { call, tryCall } from '../lib/api.ts';
import { copySecret } from '../lib/clipboard.ts';
import { useAction, useLoad } from '../lib/load.ts';
import { href, route } from '../lib/router.ts';
import { ago, exact, plural, span, visible } from '../lib/time.ts';
import { toast } from '../lib/toasts.ts';
import { confirm, open, Sheet } from '../parts/dialog.tsx';
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
  Note,
  Page,
  Select,
  Tag,
} from '../parts/ui.tsx';

interface Token {
  accessor: string;
  parent?: string;
  display_name: string;
  policies: string[];
  path: string;
  type: string;
  uses?: number;
  issue?: string;
  expire?: string | null;
  children?: number;
}
const PAGE = 100;
const FLAT_MAX = 200;

/** The children of a token, or those without a parent. */
async function childrenOf(
  parent: string,
  after = '',
): Promise<{ tokens: Token[]; next: string; isTree: boolean }> {
  const reply = await tryCall<Record<string, any>>('LIST', 'sys/kallisto/tokens', {
    query: { parent: parent || undefined, after: after || undefined, limit: PAGE },
  });
  if (reply) {
    const raw =
      reply.data['tokens'] ??
      reply.data['entries'] ??
      (reply.data['key_info'] ? Object.values(reply.data['key_info'] as object) : []);
    return { tokens: raw as Token[], next: String(reply.data['next'] ?? ''), isTree: true };
  }
  const { data } = await call<{ keys: string[] }>('LIST', 'auth/token/accessors');
  const tokens = await Promise.all(
    data.keys.slice(0, FLAT_MAX).map(async (accessor): Promise<Token | undefined> => {
      const one = await tryCall<Record<string, any>>('POST', 'auth/token/lookup-accessor', {
        body: { accessor },
      });
      return one
        ? {
            accessor,
            display_name: one.data['display_name'],
            policies: one.data['policies'] ?? [],
            path: one.data['path'],
            type: one.data['type'],
            uses: one.data['num_uses'],
            issue: one.data['issue_time'],
            expire: one.data['expire_time'],
          }
        : undefined;
    }),
  );
  return {
    tokens: tokens.filter((one): one is Token => one !== undefined),
    next: '',
    isTree: false,
  };
}

function Row({ one, depth, onGone }: { one: Token; depth: number; onGone: () => void }) {
  const [kids, setKids] = useState<Token[] | undefined>(undefined);
  const [next, setNext] = useState('');
  const ask = useAction(async (after: string) => {
    const page = await childrenOf(one.accessor, after);
    setKids(after ? [...(kids ?? []), ...page.tokens] : page.tokens);
    setNext(page.next);
  });
  const revoke = useAction(async () => {
    const dry = await tryCall<{ count?: number; dry_run?: boolean }>(
      'POST',
      'auth/token/revoke-accessor',
      { body: { accessor: one.accessor, dry_run: true } },
    );
    // A server without the preview has revoked it already, and answers without a count.
    if (dry && dry.data.count === undefined) {
      toast(en.theTokenHasEnded);
      return onGone();
    }
    const total = dry?.data.count ?? 1 + (one.children ?? 0);
    if (
      !(await confirm({
        title: en.revoke(one.display_name || one.accessor),
        text: en.withTheLeasesTheyMadeThis(
          plural(total, en.token),
          total === 1 ? en.ends2 : en.end,
        ),
        action: en.revoke2(plural(total, en.token)),
        danger: true,
        ...(total > 25 ? { typed: en.revoke3(total) } : {}),
      }))
    )
      return;
    await call('POST', 'auth/token/revoke-accessor', { body: { accessor: one.accessor } });
    toast(en.ended(plural(total, en.token)));
    onGone();
  });
  const isRoot = one.policies.includes('root');
  return (
    <>
      <tr>
        <td>
          <span class="tree-row row" style={{ '--depth': depth }}>
            {(one.children ?? 0) > 0 && (
              <Button
                size="sm"
                kind="ghost"
                icon={kids ? 'down' : 'chev'}
                label={
                  kids ? common.close : en.open(plural(one.children ?? 0, en.child, en.children))
                }
                onClick={() => (kids ? setKids(undefined) : void ask.run(''))}
                busy={ask.busy && !kids}
              />
            )}
            <b>{visible(one.display_name || '–')}</b>
            {(one.children ?? 0) > 0 && <Tag>{one.children}</Tag>}
            {isRoot && <Tag kind="bad">{common.root}</Tag>}
          </span>
          <small class="dim mono">{one.accessor}</small>
        </td>
        <td class="caps">
          {one.policies.slice(0, 4).map((name) => (
            <a class="tag" href={href(`policies/${name}`)}>
              {name}
            </a>
          ))}
          {one.policies.length > 4 && <Tag>+{one.policies.length - 4}</Tag>}
        </td>
        <td class="mono dim">{one.path}</td>
        <td>
          {one.type}
          {one.uses ? `, ${plural(one.uses, en.use)}` : ''}
        </td>
        <td>
          {one.expire ? (
            <span title={exact(one.expire)}>{ago(one.expire)}</span>
          ) : (
            <Tag kind="warn">{en.noEnd}</Tag>
          )}
        </td>
        <td class="right">
          <Button size="sm" icon="close" busy={revoke.busy} onClick={() => void revoke.run()}>
            {en.revoke4}
          </Button>
        </td>
      </tr>
      {(revoke.error ?? ask.error) ? (
        <tr>
          <td colSpan={6}>
            <FormError error={revoke.error ?? ask.error} />
          </td>
        </tr>
      ) : null}
      {kids?.map((kid) => (
        <Row key={kid.accessor} one={kid} depth={depth + 1} onGone={() => void ask.run('')} />
      ))}
      {kids && next ? (
        <tr>
          <td colSpan={6}>
            <Button size="sm" busy={ask.busy} onClick={() => void ask.run(next)}>
              {en.more}
            </Button>
          </td>
        </tr>
      ) : null}
    </>
  );
}

function Make({ close }: { close: () => void }) {
  const [policies, setPolicies] = useState('default');
  const [name, setName] = useState('');
  const [ttl, setTtl] = useState('1h');
  const [uses, setUses] = useState('0');
  const [orphan, setOrphan] = useState(false);
  const [role, setRole] = useState('');
  const [roles, setRoles] = useState<string[]>([]);
  useEffect(() => {
    void tryCall<{ keys?: string[] }>('LIST', 'auth/token/roles').then((reply) =>
      setRoles(reply?.data.keys ?? []),
    );
  }, []);
  const [made, setMade] = useState('');
  const run = useAction(async () => {
    const { auth } = await call(
      'POST',
      role
        ? `auth/token/create/${role}`
        : orphan
          ? 'auth/token/create-orphan'
          : 'auth/token/create',
      {
        body: {
          policies: policies
            .split(',')
            .map((one) => one.trim())
            .filter(Boolean),
          display_name: name,
          ttl,
          num_uses: Number(uses) || 0,
        },
      },
    );
    setMade(auth?.client_token ?? '');
  });
  if (made)
    return (
      <Sheet
        title={en.theToken}
        actions={
          <Button kind="primary" onClick={close}>
            {common.done}
          </Button>
        }
      >
        <Note kind="warn">{en.itIsShownOnceHereAnd}</Note>
        <div class="row">
          <Button icon="copy" onClick={() => void copySecret(made, common.token)}>
            {common.copy}
          </Button>
        </div>
        <div class="code mono">
          <code class="grow">{made}</code>
        </div>
      </Sheet>
    );
  return (
    <Form name="tokens/new" onSubmit={() => run.run()}>
      <Sheet
        title={en.newToken}
        actions={
          <>
            <Button onClick={close}>{common.cancel}</Button>
            <Button kind="primary" type="submit" busy={run.busy}>
              {common.makeIt}
            </Button>
          </>
        }
      >
        {roles.length > 0 && (
          <Select
            label={common.role}
            value={role}
            options={[['', common.none], ...roles.map((one) => [one, visible(one)] as const)]}
            onChange={setRole}
          />
        )}
        <Field
          label={common.policiesWithCommas}
          value={policies}
          onInput={setPolicies}
          mono
          autofocus
        />
        <Field label={common.name} value={name} onInput={setName} hint={common.optional} />
        <div class="pair">
          <Field label={en.livesFor} value={ttl} onInput={setTtl} mono />
          <Field label={en.uses0Any} type="number" min={0} value={uses} onInput={setUses} />
        </div>
        <Check
          label={en.withoutAParent}
          hint={en.itDoesNotEndWithYours}
          checked={orphan}
          onChange={setOrphan}
        />
        <FormError error={run.error} />
      </Sheet>
    </Form>
  );
}

function One({ accessor }: { accessor: string }) {
  const loaded = useLoad(
    async () =>
      (
        await call<Record<string, any>>('POST', 'auth/token/lookup-accessor', {
          body: { accessor },
        })
      ).data,
    [accessor],
  );
  if (loaded.error) return <Failed error={loaded.error} retry={loaded.reload} />;
  if (!loaded.data) return <Loading />;
  return (
    <Page
      title={visible(loaded.data['display_name'] || accessor)}
      sub={<span class="mono">{accessor}</span>}
      actions={
        <LinkButton href={href('tokens/')} icon="tree">
          {en.allTokens}
        </LinkButton>
      }
    >
      <Card pad>
        <dl class="kv">
          {Object.entries(loaded.data)
            .filter(([key]) => key !== 'id')
            .map(([key, value]) => (
              <>
                <dt>{key.replaceAll('_', ' ')}</dt>
                <dd class="mono">
                  {typeof value === 'number' && key.endsWith('ttl')
                    ? span(value)
                    : visible(typeof value === 'string' ? value || '–' : JSON.stringify(value))}
                </dd>
              </>
            ))}
        </dl>
      </Card>
    </Page>
  );
}

export function Tokens() {
  const accessor = route.value.path.replace(/^tokens\/?/, '');
  const [extra, setExtra] = useState<Token[]>([]);
  const [next, setNext] = useState<string | undefined>(undefined);
  const loaded = useLoad(accessor ? undefined : () => childrenOf(''), [accessor]);
  if (accessor) return <One accessor={accessor} />;
  if (loaded.error)
    return (
      <Failed error={loaded.error} retry={loaded.reload} path="auth/token/accessors" cap="sudo" />
    );
  const more = next ?? loaded.data?.next ?? '';
  const list = [...(loaded.data?.tokens ?? []), ...extra];
  return (
    <Page
      title={en.tokens}
      sub={loaded.data?.isTree ? en.byParentWhoeverEndsTakesIts : en.flatByAccessor}
      actions={
        <Button
          kind="primary"
          icon="plus"
          need={{ path: 'auth/token/create', cap: ['create', 'update'] }}
          onClick={() =>
            void open<void>((close) => (
              <Make
                close={() => {
                  close();
                  loaded.reload();
                }}
              />
            ))
          }
        >
          {en.newToken}
        </Button>
      }
    >
      {!loaded.data ? (
        <Loading />
      ) : list.length === 0 ? (
        <Card>
          <Empty icon="tree" title={en.noToken} />
        </Card>
      ) : (
        <Card>
          <div class="scroll-x" tabIndex={0} role="region" aria-label={en.tokens}>
            <table class="grid">
              <thead>
                <tr>
                  <th>{common.token}</th>
                  <th>{common.policies}</th>
                  <th>{en.madeBy}</th>
                  <th>{common.kind}</th>
                  <th>{en.ends}</th>
                  <th>
                    <span class="sr">{common.actions}</span>
                  </th>
                </tr>
              </thead>
              <tbody>
                {list.map((one) => (
                  <Row
                    key={one.accessor}
                    one={one}
                    depth={0}
                    onGone={() => {
                      setExtra([]);
                      setNext(undefined);
                      loaded.reload();
                    }}
                  />
                ))}
              </tbody>
            </table>
          </div>
          {more && (
            <div class="pad">
              <Button
                onClick={() =>
                  void childrenOf('', more).then((page) => {
                    setExtra([...extra, ...page.tokens]);
                    setNext(page.next);
                  })
                }
              >
                {en.more}
              </Button>
            </div>
          )}
        </Card>
      )}
      <Note>{en.batchTokensAreNotKeptBy}</Note>
    </Page>
  );
}
