// Quotas: rate limits and counts of leases, and the rule that holds for a path.
import * as common from '../../en/common.ts';
import * as en from '../../en/screens/settings/quotas.ts';
import { useState } from 'preact/hooks';
import { call } from '../../lib/api.ts';
import { useAction, useLoad } from '../../lib/load.ts';
import { namespace } from '../../lib/state.ts';
import { count, visible } from '../../lib/time.ts';
import { toast } from '../../lib/toasts.ts';
import { confirm } from '../../parts/dialog.tsx';
import { Form } from '../../parts/form.tsx';
import { Button, Card, Empty, Failed, Field, FormError, Loading, Note } from '../../parts/ui.tsx';

type Rule = Record<string, any>;
type KindOf = 'rate-limit' | 'lease-count';

async function rules(kind: KindOf): Promise<Rule[]> {
  const { keys = [] } = (
    await call<{ keys?: string[] }>('LIST', `sys/quotas/${kind}`).catch(
      (error: { status?: number }) => {
        if (error.status === 404) return { data: { keys: [] as string[] } };
        throw error;
      },
    )
  ).data;
  return Promise.all(
    keys.map(async (name) => (await call<Rule>('GET', `sys/quotas/${kind}/${name}`)).data),
  );
}

/** Whether a rule's path is for `path`, as the server compares them: the same, or all that begins with a folder or with what stands before a `*`. */
function fits(rule: string, path: string): boolean {
  if (rule.endsWith('*')) return path.startsWith(rule.slice(0, -1));
  return rule === '' || rule.endsWith('/')
    ? path.startsWith(rule)
    : path.replace(/\/$/, '') === rule;
}
/** Paths before what begins with something, that before mounts, these before rules for everything. */
const rank = (rule: string): number =>
  rule === '' ? 0 : rule.endsWith('/') ? 1 : rule.endsWith('*') ? 2 : 3;

/** The rule that holds for a path, whoever asks: one of a role is for its logins alone. */
function nearest(list: readonly Rule[], path: string): Rule | undefined {
  const ns = namespace.value ? `${namespace.value}/` : '';
  const inside = (one: Rule): string => {
    const rule = String(one['path'] ?? '');
    return rule.startsWith(ns) ? rule.slice(ns.length) : rule;
  };
  return list
    .filter((one) => !one['role'] && fits(inside(one), path))
    .sort((a, b) => rank(inside(b)) - rank(inside(a)) || inside(b).length - inside(a).length)[0];
}

function Rules({
  kind,
  title,
  about,
  amount,
  unit,
  shown,
  body,
}: {
  kind: KindOf;
  title: string;
  about: string;
  amount: string;
  unit: string;
  shown: (one: Rule) => string;
  body: (value: number) => object;
}) {
  const loaded = useLoad(() => rules(kind), [kind]);
  const [name, setName] = useState('');
  const [path, setPath] = useState('');
  const [value, setValue] = useState(amount);
  const [asked, setAsked] = useState('');
  const run = useAction(async () => {
    const old = loaded.data?.find((one) => one['name'] === name);
    if (
      old &&
      !(await confirm({
        title: en.replaceIt(name),
        text: en.itIsNow(visible(old['path'] || '*'), shown(old)),
        action: en.replace,
      }))
    )
      return;
    await call('POST', `sys/quotas/${kind}/${name}`, { body: { path, ...body(Number(value)) } });
    toast(en.theQuotaIsInForce(name));
    setName('');
    loaded.reload();
  });
  const remove = useAction(async (gone: string) => {
    if (
      await confirm({
        title: en.remove(gone),
        text: en.whatItLimitedIsUnlimitedAt,
        action: en.remove2,
        danger: true,
      })
    ) {
      await call('DELETE', `sys/quotas/${kind}/${gone}`);
      loaded.reload();
    }
  });
  if (loaded.error)
    return (
      <Failed error={loaded.error} retry={loaded.reload} path={`sys/quotas/${kind}`} cap="list" />
    );
  const held = asked ? nearest(loaded.data ?? [], asked) : undefined;
  return (
    <Card title={title}>
      {!loaded.data ? (
        <Loading />
      ) : loaded.data.length === 0 ? (
        <Empty icon="clock" title={en.noQuotaYet}>
          {about}
        </Empty>
      ) : (
        <div class="scroll-x" tabIndex={0} role="region" aria-label={title}>
          <table class="grid">
            <thead>
              <tr>
                <th>{common.name}</th>
                <th>{common.path}</th>
                <th>{common.role}</th>
                <th class="right">{en.limit}</th>
                <th>
                  <span class="sr">{common.actions}</span>
                </th>
              </tr>
            </thead>
            <tbody>
              {loaded.data.map((one) => (
                <tr key={one['name']}>
                  <td>
                    <b>{visible(one['name'])}</b>
                  </td>
                  <td class="mono">{visible(one['path'] || '*')}</td>
                  <td>{visible(one['role'] || '–')}</td>
                  <td class="right num">{shown(one)}</td>
                  <td class="right">
                    <Button
                      size="sm"
                      kind="ghost"
                      icon="trash"
                      label={en.remove3(one['name'])}
                      need={{ path: `sys/quotas/${kind}/${one['name']}`, cap: 'delete' }}
                      onClick={() => void remove.run(one['name'] as string)}
                    />
                  </td>
                </tr>
              ))}
            </tbody>
          </table>
        </div>
      )}
      <div class="pad stack">
        {loaded.data && loaded.data.length > 0 && (
          <>
            <Field
              label={en.whichQuotaHoldsForThisPath}
              value={asked}
              onInput={setAsked}
              mono
              placeholder="secret/data/apps/payments"
            />
            {asked && (
              <Note>
                {held ? (
                  <>
                    <b>{visible(held['name'])}</b>: {shown(held)}
                  </>
                ) : (
                  en.noQuotaHoldsForIt
                )}
              </Note>
            )}
          </>
        )}
        <Form name="quotas/set" class="filters" onSubmit={() => run.run()}>
          <Field
            label={en.newQuota}
            value={name}
            onInput={setName}
            mono
            placeholder={en.payments}
          />
          <Field
            label={common.path}
            value={path}
            onInput={setPath}
            mono
            placeholder={en.everywhere}
          />
          <Field label={unit} type="number" min={1} value={value} onInput={setValue} />
          <Button
            type="submit"
            icon="plus"
            class="at-end"
            busy={run.busy}
            disabled={!name}
            need={{ path: `sys/quotas/${kind}/new`, cap: ['create', 'update'] }}
            onClick={() => {}}
          >
            {en.set}
          </Button>
        </Form>
        <FormError error={run.error ?? remove.error} />
      </div>
    </Card>
  );
}

export function Quotas() {
  return (
    <>
      <Rules
        kind="rate-limit"
        title={en.rateLimits}
        about={en.aRateLimitRefusesRequestsBeyond}
        amount="100"
        unit={en.requestsASecond}
        shown={(one) => en.perS(count(one['rate'] as number), one['interval'])}
        body={(rate) => ({ rate, interval: '1s' })}
      />
      <Rules
        kind="lease-count"
        title={en.leaseCounts}
        about={en.aLeaseCountRefusesNewCredentials}
        amount="10000"
        unit={en.leases}
        shown={(one) => en.leases2(count(one['max_leases'] as number))}
        body={(max) => ({ max_leases: max })}
      />
    </>
  );
}
