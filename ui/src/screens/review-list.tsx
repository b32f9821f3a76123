// The people, groups, roles and tokens of an access review (contract E4).
import * as common from '../en/common.ts';
import * as en from '../en/screens/review-list.ts';
import { call } from '../lib/api.ts';
import { href } from '../lib/router.ts';
import { ago, visible } from '../lib/time.ts';
import { Tag } from '../parts/ui.tsx';

export interface Subject {
  kind: string;
  id: string;
  name: string;
  mount?: string;
  via?: { policy?: string; line?: number } | { policy?: string; line?: number }[];
  expires?: string | null;
}
const PAGES_MAX = 20;

export async function whoCan(path: string, capability: string): Promise<Subject[]> {
  const all: Subject[] = [];
  let next: string | undefined;
  for (let page = 0; page < PAGES_MAX; page += 1) {
    const { data }: { data: Record<string, any> } = await call('POST', 'sys/kallisto/access/who', {
      body: { path, capability, ...(next ? { next } : {}) },
      quiet: true,
    });
    all.push(...((data['subjects'] ?? []) as Subject[]));
    next = (data['next'] as string | undefined) || undefined;
    if (!next) break;
  }
  return all;
}

const viaOf = (subject: Subject): { policy?: string; line?: number }[] =>
  Array.isArray(subject.via) ? subject.via : subject.via ? [subject.via] : [];

export function Subjects({
  subjects,
  label = en.subjects,
}: {
  subjects: Subject[];
  label?: string;
}) {
  if (subjects.length === 0)
    return (
      <p class="pad soft" role="region" aria-label={label}>
        {en.nobodyButRoot}
      </p>
    );
  return (
    <div class="scroll-x" tabIndex={0} role="region" aria-label={label}>
      <table class="grid">
        <thead>
          <tr>
            <th>{en.who}</th>
            <th>{common.kind}</th>
            <th>{en.through}</th>
            <th>{en.until}</th>
          </tr>
        </thead>
        <tbody>
          {subjects.map((one) => (
            <tr key={one.kind + one.id}>
              <td>
                <b>{visible(one.name || one.id)}</b>
                {one.mount && <small class="dim mono">{one.mount}</small>}
              </td>
              <td>
                <Tag>{one.kind}</Tag>
              </td>
              <td>
                {viaOf(one).map((via) => (
                  <a class="link" href={href(`policies/${via.policy ?? ''}`, { line: via.line })}>
                    {via.policy}
                    {via.line ? en.line(via.line) : ''}
                  </a>
                ))}
              </td>
              <td>
                {one.expires ? (
                  <Tag kind={Date.parse(one.expires) < Date.now() ? 'bad' : ''}>
                    {ago(one.expires)}
                  </Tag>
                ) : (
                  <span class="dim">–</span>
                )}
              </td>
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  );
}

export const subjectsCsv = (subjects: Subject[]): string =>
  [
    'kind,name,id,mount,policy,line,expires',
    ...subjects.flatMap((one) =>
      (viaOf(one).length ? viaOf(one) : [{}]).map((via: { policy?: string; line?: number }) =>
        [
          one.kind,
          one.name,
          one.id,
          one.mount ?? '',
          via.policy ?? '',
          via.line ?? '',
          one.expires ?? '',
        ]
          .map((cell) => {
            const text = String(cell);
            const safe = /^[=+\-@]/.test(text) ? `'${text}` : text;
            return /[",\n]/.test(safe) ? `"${safe.replaceAll('"', '""')}"` : safe;
          })
          .join(','),
      ),
    ),
  ].join('\n');
