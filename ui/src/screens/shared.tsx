// The links I made: unopened, opened, ended; and withdrawing one.
import * as common from '../en/common.ts';
import * as en from '../en/screens/shared.ts';
import { useState } from 'preact/hooks';
import { useAction, useLoad } from '../lib/load.ts';
import {
  keepShares,
  sharedByMe,
  stateOfShare,
  withdraw,
  type Shared as Share,
  type ShareState,
} from '../lib/shares.ts';
import { toast } from '../lib/toasts.ts';
import { ago, exact, visible } from '../lib/time.ts';
import { Button, Card, Empty, Failed, FormError, Loading, Note, Page, Tag } from '../parts/ui.tsx';
import { shareText } from './secrets/share.tsx';

const WORDS: Record<ShareState, [string, '' | 'ok' | 'warn' | 'bad']> = {
  waiting: [en.notOpened, 'warn'],
  opened: ['opened', 'ok'],
  expired: ['ended', ''],
  unknown: [en.untilItsEnd, ''],
};

export function Shared() {
  const loaded = useLoad(async () => {
    const list = await sharedByMe();
    return Promise.all(list.map(async (one) => ({ one, state: await stateOfShare(one) })));
  }, []);
  const [gone, setGone] = useState<string[]>([]);
  const run = useAction(async (one: Share) => {
    await withdraw(one);
    await keepShares((await sharedByMe()).filter((other) => other.accessor !== one.accessor));
    setGone([...gone, one.accessor]);
    toast(en.theLinkOpensNothingAnyMore);
  });
  const list = (loaded.data ?? []).filter(({ one }) => !gone.includes(one.accessor));
  return (
    <Page
      title={common.sharedByMe}
      sub={en.linksThatOpenOnceThisList}
      actions={
        <Button kind="primary" icon="plus" onClick={() => void shareText().then(loaded.reload)}>
          {en.shareAText}
        </Button>
      }
    >
      <FormError error={run.error} />
      {loaded.error ? (
        <Failed error={loaded.error} retry={loaded.reload} />
      ) : !loaded.data ? (
        <Loading />
      ) : list.length === 0 ? (
        <Card>
          <Empty
            icon="link"
            title={en.noLinkYet}
            action={
              <Button
                kind="primary"
                icon="plus"
                onClick={() => void shareText().then(loaded.reload)}
              >
                {common.shareATextOnce}
              </Button>
            }
          >
            {en.forSomebodyWithoutAnAccountThe}
          </Empty>
        </Card>
      ) : (
        <Card>
          <div class="scroll-x" tabIndex={0} role="region" aria-label={en.links}>
            <table class="grid">
              <thead>
                <tr>
                  <th>{en.note}</th>
                  <th>{en.made}</th>
                  <th>{en.ends}</th>
                  <th>{common.state}</th>
                  <th>
                    <span class="sr">{common.actions}</span>
                  </th>
                </tr>
              </thead>
              <tbody>
                {list.map(({ one, state }) => (
                  <tr key={one.accessor}>
                    <td>
                      <b>{visible(one.note)}</b>
                      {one.from && <small class="dim mono">{visible(one.from)}</small>}
                    </td>
                    <td title={exact(one.made)}>{ago(one.made)}</td>
                    <td title={exact(one.ends)}>{ago(one.ends)}</td>
                    <td>
                      <Tag kind={WORDS[state][1]}>{WORDS[state][0]}</Tag>
                    </td>
                    <td class="right">
                      {(state === 'waiting' || state === 'unknown') && one.ends > Date.now() && (
                        <Button
                          size="sm"
                          icon="close"
                          busy={run.busy}
                          onClick={() => void run.run(one)}
                        >
                          {en.withdraw}
                        </Button>
                      )}
                    </td>
                  </tr>
                ))}
              </tbody>
            </table>
          </div>
        </Card>
      )}
      <Note>{en.openedBySomebodyElseThanYou}</Note>
    </Page>
  );
}
