// The links I made: unopened, opened, ended; and withdrawing one.
import { useState } from 'preact/hooks';
import { useAction, useLoad } from '../lib/load.ts';
import { keepShares, sharedByMe, stateOfShare, withdraw, type Shared as Share, type ShareState } from '../lib/shares.ts';
import { toast } from '../lib/toasts.ts';
import { ago, exact, visible } from '../lib/time.ts';
import { Button, Card, Empty, Failed, FormError, Loading, Note, Page, Tag } from '../parts/ui.tsx';
import { shareText } from './secrets/share.tsx';

const WORDS: Record<ShareState, [string, '' | 'ok' | 'warn' | 'bad']> = { waiting: ['not opened', 'warn'], opened: ['opened', 'ok'], expired: ['ended', ''], unknown: ['until its end', ''] };

export function Shared() {
  const loaded = useLoad(async () => { const list = await sharedByMe(); return Promise.all(list.map(async (one) => ({ one, state: await stateOfShare(one) }))); }, []);
  const [gone, setGone] = useState<string[]>([]);
  const run = useAction(async (one: Share) => { await withdraw(one); await keepShares((await sharedByMe()).filter((other) => other.accessor !== one.accessor)); setGone([...gone, one.accessor]); toast('The link opens nothing any more'); });
  const list = (loaded.data ?? []).filter(({ one }) => !gone.includes(one.accessor));
  return (
    <Page title="Shared by me" sub="Links that open once. This list is kept for your session and ends with it; the links do not." actions={<Button kind="primary" icon="plus" onClick={() => void shareText().then(loaded.reload)}>Share a text</Button>}>
      <FormError error={run.error} />
      {loaded.error ? <Failed error={loaded.error} retry={loaded.reload} /> : !loaded.data ? <Loading /> : list.length === 0 ? <Card><Empty icon="link" title="No link yet" action={<Button kind="primary" icon="plus" onClick={() => void shareText().then(loaded.reload)}>Share a text once</Button>}>For somebody without an account: the link opens once, and you see whether it was.</Empty></Card> : (
        <Card><div class="scroll-x" tabIndex={0} role="region" aria-label="Links"><table class="grid"><thead><tr><th>Note</th><th>Made</th><th>Ends</th><th>State</th><th><span class="sr">Actions</span></th></tr></thead><tbody>{list.map(({ one, state }) => <tr key={one.accessor}><td><b>{visible(one.note)}</b>{one.from && <small class="dim mono">{visible(one.from)}</small>}</td><td title={exact(one.made)}>{ago(one.made)}</td><td title={exact(one.ends)}>{ago(one.ends)}</td><td><Tag kind={WORDS[state][1]}>{WORDS[state][0]}</Tag></td><td class="right">{(state === 'waiting' || state === 'unknown') && one.ends > Date.now() && <Button size="sm" icon="close" busy={run.busy} onClick={() => void run.run(one)}>Withdraw</Button>}</td></tr>)}</tbody></table></div></Card>
      )}
      <Note>Opened by somebody else than you meant? Change what it held: a link that was opened once cannot be closed.</Note>
    </Page>
  );
}
