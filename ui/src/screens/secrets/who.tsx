// Who can read this secret: the access review for its path; without the right to that, what I may do myself and why.
import * as common from '../../en/common.ts';
import * as en from '../../en/screens/secrets/who.ts';
import { useState } from 'preact/hooks';
import { tryCall } from '../../lib/api.ts';
import { useLoad } from '../../lib/load.ts';
import { can } from '../../lib/needs.ts';
import { apiPath, type Place } from '../../lib/place.ts';
import { me } from '../../lib/state.ts';
import { explainSelf, isAllowed, Rules } from '../../parts/why.tsx';
import { Card, Loading, Note, Segments, Tag } from '../../parts/ui.tsx';
import { Subjects, whoCan } from '../review-list.tsx';

const CAPS = ['read', 'create', 'update', 'patch', 'delete', 'list'] as const;

export function Who({ place }: { place: Place }) {
  const path = apiPath(place, 'data');
  const [cap, setCap] = useState<(typeof CAPS)[number]>('read');
  const mayReview = can('review');
  const mine = useLoad(async () => {
    const [caps, why] = await Promise.all([
      tryCall<Record<string, any>>('POST', 'sys/capabilities-self', { body: { paths: [path] } }),
      explainSelf(path, cap),
    ]);
    const known = (caps?.data[path] ?? []) as string[];
    // In another namespace than its policies' a token may seldom ask for capabilities; the rule tells as well.
    const may: boolean | undefined = caps
      ? known.includes('root') || known.includes(cap)
      : isAllowed(why);
    return { caps: known, may, why };
  }, [path, cap]);
  const all = useLoad(mayReview ? () => whoCan(path, cap) : undefined, [path, cap, mayReview]);
  return (
    <>
      <div class="row">
        <Segments
          label={en.right}
          value={cap}
          options={CAPS.map((one) => [one, one] as const)}
          onChange={setCap}
        />
      </div>
      <Card
        title={
          <>
            {en.you} {me.value?.name}
          </>
        }
        actions={
          mine.data?.may !== undefined && (
            <Tag kind={mine.data.may ? 'ok' : 'bad'} icon={mine.data.may ? 'check' : 'lock'}>
              {mine.data.may ? en.may(cap) : en.mayNot(cap)}
            </Tag>
          )
        }
        pad
      >
        {!mine.data ? (
          <Loading rows={2} />
        ) : mine.data.caps.includes('root') ? (
          <p class="soft">{en.aRootTokenMayDoEverything}</p>
        ) : mine.data.why ? (
          <Rules answer={mine.data.why} path={path} cap={cap} />
        ) : (
          <p class="soft">
            {en.capabilitiesOn} <span class="mono">{path}</span>:{' '}
            {mine.data.caps.join(', ') || common.none}.
          </p>
        )}
      </Card>
      <Card title={en.everybodyWhoCanIt(cap)} pad={!all.data}>
        {mayReview === false ? (
          <Note icon="lock">
            {en.seeingOthersNeeds} <span class="mono">sudo</span> {common.on}{' '}
            <span class="mono">sys/kallisto/access/who</span>.
          </Note>
        ) : all.error ? (
          <Note kind="warn">
            {/unsupported path/.test(String(all.error))
              ? en.thisServerHasNoAccessReview
              : all.error instanceof Error
                ? all.error.message
                : ''}
          </Note>
        ) : all.data ? (
          <Subjects subjects={all.data} />
        ) : (
          <Loading rows={3} />
        )}
      </Card>
    </>
  );
}
