// Why something is refused: the rule that decides, in whose policy, and a request to send to an administrator.
import * as common from '../en/common.ts';
import * as en from '../en/parts/why.ts';
import { useEffect, useState } from 'preact/hooks';
import { tryCall } from '../lib/api.ts';
import { copy } from '../lib/clipboard.ts';
import { me, namespace } from '../lib/state.ts';
import { Loading, Note, Button, Tag } from './ui.tsx';
import { open, Sheet } from './dialog.tsx';

export interface Asked {
  path: string;
  cap: string;
}

/** Asks the server about the caller's own rights (contract E4), or as an operator may. */
export async function explainSelf(
  path: string,
  cap: string,
): Promise<Record<string, any> | undefined> {
  const own = await tryCall('POST', 'sys/internal/ui/explain', { body: { path, capability: cap } });
  if (own) return own.data;
  const general = await tryCall('POST', 'sys/policies/explain', {
    body: { path, capability: cap },
  });
  return general?.data;
}

/** The part of an answer of explain that is about one path and one capability. */
const cellOf = (answer: Record<string, any>): Record<string, any> =>
  Array.isArray(answer['grid']) ? ((answer['grid'] as Record<string, any>[])[0] ?? answer) : answer;

/** What an answer of explain comes to; `undefined` where there is none. */
export const isAllowed = (answer: Record<string, any> | undefined): boolean | undefined =>
  answer && typeof cellOf(answer)['allowed'] === 'boolean'
    ? (cellOf(answer)['allowed'] as boolean)
    : undefined;

function Why({ asked, close }: { asked: Asked; close: () => void }) {
  const [answer, setAnswer] = useState<Record<string, any> | null | undefined>(undefined);
  useEffect(() => {
    void explainSelf(asked.path, asked.cap).then((found) => setAnswer(found ?? null));
  }, []);
  const current = me.value;
  const request = `Please give ${current?.name ?? 'me'}${current?.entityId ? en.entity(current.entityId) : ''} the right "${asked.cap}" on "${asked.path}"${namespace.value ? en.inTheNamespace(namespace.value) : ''}.\n\npath "${asked.path}" {\n  capabilities = ["${asked.cap}"]\n}\n\nPolicies now: ${current?.policies.join(', ') ?? ''}`;
  return (
    <Sheet
      title={en.whyNot(asked.cap)}
      actions={
        <>
          <Button icon="copy" onClick={() => void copy(request, common.request)}>
            {en.copyARequestForAnAdministrator}
          </Button>
          <Button kind="primary" onClick={close}>
            {common.close}
          </Button>
        </>
      }
    >
      <p class="soft">
        <b>{asked.cap}</b> {common.on} <span class="mono">{asked.path}</span> {en.isNotAllowedFor}{' '}
        <b>{current?.name}</b>.
      </p>
      {answer === undefined ? (
        <Loading rows={2} />
      ) : answer ? (
        <Rules answer={answer} path={asked.path} cap={asked.cap} />
      ) : (
        <Note>{en.noRuleOfYourPoliciesGrants}</Note>
      )}
      <div>
        <h3>{en.yourPolicies}</h3>
        <p class="caps">
          {current?.policies.map((name) => (
            <Tag>{name}</Tag>
          ))}
        </p>
      </div>
    </Sheet>
  );
}

/** The rules of an answer of explain: what decides, and what lost. */
export function Rules({
  answer,
  path,
  cap,
}: {
  answer: Record<string, any>;
  path: string;
  cap: string;
}) {
  const cell = cellOf(answer);
  const rules = rulesOf(cell);
  if (rules.length === 0 && cell['reason']) return <Note>{cell['reason']}.</Note>;
  if (rules.length === 0)
    return (
      <Note>
        {en.noRuleOfThesePoliciesMatches} <span class="mono">{path}</span>
        {en.soIsRefused(cap)}
      </Note>
    );
  return (
    <div class="stack">
      {rules.map((rule) => (
        <div class={`rule ${rule.decides ? (cell['allowed'] ? 'y' : 'd') : ''}`}>
          <Tag kind={rule.decides ? (cell['allowed'] ? 'ok' : 'bad') : ''}>
            {rule.decides ? common.decides : en.lost}
          </Tag>
          <span class="mono grow">{rule.pattern}</span>
          <span class="dim">
            {rule.capabilities?.join(', ')}
            {rule.policy && (
              <>
                {' '}
                · {rule.policy}
                {rule.line ? en.line(rule.line) : ''}
              </>
            )}
          </span>
          {rule.reason && <p class="dim full">{rule.reason}</p>}
        </div>
      ))}
    </div>
  );
}

export interface FoundRule {
  decides: boolean;
  pattern: string;
  policy?: string | undefined;
  line?: number | undefined;
  capabilities?: string[] | undefined;
  reason?: string | undefined;
}

/** The rules in an answer of `sys/policies/explain`: what decides first, then what matched and lost. */
export function rulesOf(answer: Record<string, any>): FoundRule[] {
  const list = (value: unknown): Record<string, any>[] =>
    Array.isArray(value)
      ? (value as Record<string, any>[])
      : value && typeof value === 'object'
        ? [value as Record<string, any>]
        : [];
  const read = (rule: Record<string, any>, decides: boolean): FoundRule[] => {
    const sources = list(rule['sources']);
    const from = sources.length > 0 ? sources : [rule];
    return from.map((source) => ({
      decides,
      pattern: String(rule['pattern'] ?? ''),
      policy: source['policy'],
      line: source['line'],
      capabilities: source['capabilities'] ?? rule['capabilities'],
      reason: rule['because'],
    }));
  };
  return [
    ...list(answer['decided_by']).flatMap((rule) => read(rule, true)),
    ...list(answer['lost']).flatMap((rule) => read(rule, false)),
  ];
}

/** Opens the dialog. */
export const showWhy = (asked: Asked): void =>
  void open<void>((close) => <Why asked={asked} close={() => close()} />);
