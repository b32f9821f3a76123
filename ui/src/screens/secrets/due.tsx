// When a secret is to be rotated, as a tag.
import * as en from '../../en/screens/secrets/due.ts';
import { ago } from '../../lib/time.ts';
import { Tag } from '../../parts/ui.tsx';

const SOON_MS = 14 * 86_400_000;
export function dueTag(due: string) {
  const at = Date.parse(due);
  if (Number.isNaN(at)) return <Tag>{due}</Tag>;
  const left = at - Date.now();
  return (
    <Tag
      kind={left < 0 ? 'bad' : left < SOON_MS ? 'warn' : ''}
      icon={left < SOON_MS ? 'warn' : 'clock'}
    >
      {left < 0 ? en.overdueSince(ago(at).replace(' ago', '')) : ago(at)}
    </Tag>
  );
}
