// Before there is anything: a new cluster or one to join, its key shares, and unsealing by several people.
import * as common from '../en/common.ts';
import * as en from '../en/screens/setup.ts';
import { useEffect, useState } from 'preact/hooks';
import { ApiError, call } from '../lib/api.ts';
import { copySecret } from '../lib/clipboard.ts';
import { download } from '../lib/download.ts';
import { useAction } from '../lib/load.ts';
import { go, guard, href, route, within } from '../lib/router.ts';
import { askServer } from '../lib/server.ts';
import { server } from '../lib/state.ts';
import { plural } from '../lib/time.ts';
import { confirm } from '../parts/dialog.tsx';
import { Icon, Mark } from '../parts/icons.tsx';
import { Form } from '../parts/form.tsx';
import { Button, Card, Field, FormError, LinkButton, Note, Segments, Tag } from '../parts/ui.tsx';

interface Made {
  keys: string[];
  root: string;
  threshold: number;
  cluster: string;
}

function Outside({
  title,
  sub,
  children,
  wide,
}: {
  title: string;
  sub?: string;
  children: preact.ComponentChildren;
  wide?: boolean;
}) {
  return (
    <div class="outside">
      <main class={`gate ${wide ? 'wide' : ''}`} id="content">
        <div class="gatehead">
          <Mark />
          <h1>{title}</h1>
          {sub && <p class="dim">{sub}</p>}
        </div>
        {children}
      </main>
    </div>
  );
}

export function Setup() {
  const [how, setHow] = useState<'new' | 'join'>('new');
  const [made, setMade] = useState<Made | undefined>(undefined);
  const [isReady, setReady] = useState(false);
  useEffect(() => {
    document.title = en.setUpKallisto;
    void askServer().then((state) => {
      if (state.initialized && !made) void go(href('login'), true);
      else setReady(true);
    });
  }, []);
  useEffect(() => {
    guard.value = made
      ? () =>
          confirm({
            title: en.leaveTheShares,
            text: en.theyAreShownOnceWithoutEnough,
            action: common.leave,
            danger: true,
          }).then(
            async (yes) =>
              yes &&
              confirm({
                title: en.allSharesAreStored,
                text: en.sayYesOnlyIfEachHolder,
                action: en.yesAllAreStored,
                danger: true,
              }),
          )
      : undefined;
  }, [made]);
  if (!isReady) return <div class="outside" />;
  if (made) return <Shares made={made} />;
  return (
    <Outside title={en.setUpKallisto2} sub={en.thisServerHasNoDataYet}>
      <Segments
        label={common.whatToDo}
        value={how}
        options={[
          ['new', en.aNewCluster],
          ['join', en.joinOne],
        ]}
        onChange={setHow}
      />
      {how === 'new' ? <New onMade={setMade} /> : <Join />}
    </Outside>
  );
}

function New({ onMade }: { onMade: (made: Made) => void }) {
  const [shares, setShares] = useState('5');
  const [threshold, setThreshold] = useState('3');
  const isAuto =
    server.value.type !== undefined && server.value.type !== 'shamir' && server.value.type !== '';
  const run = useAction(async () => {
    const [n, t] = [Number(shares), Number(threshold)];
    const { body } = await call('PUT', 'sys/init', {
      token: '',
      ns: '',
      quiet: true,
      body: isAuto
        ? { recovery_shares: n, recovery_threshold: t }
        : { secret_shares: n, secret_threshold: t },
    });
    onMade({
      keys: (body['keys_base64'] ?? body['recovery_keys_base64'] ?? body['keys'] ?? []) as string[],
      root: body['root_token'] as string,
      threshold: t,
      cluster: server.peek().name || 'kallisto',
    });
  });
  const [n, t] = [Number(shares), Number(threshold)];
  const wrong = !(n >= 1 && n <= 255 && t >= 1 && t <= n) || (n > 1 && t === 1);
  return (
    <Form name="setup/new" class="stack" onSubmit={() => (!wrong ? run.run() : undefined)}>
      <p class="soft">
        {en.theKeyOfAllDataIs(
          isAuto ? en.thisServerUnsealsItselfTheShares : en.afterEachStartSoManyHolders,
        )}
      </p>
      <div class="pair">
        <Field
          label={isAuto ? en.recoveryShares : en.shares}
          type="number"
          min={1}
          value={shares}
          onInput={setShares}
        />
        <Field
          label={en.neededOfThem}
          type="number"
          min={1}
          value={threshold}
          onInput={setThreshold}
        />
      </div>
      <Note kind={wrong ? 'warn' : ''}>
        {wrong ? (
          n > 1 && t === 1 ? (
            en.withMoreThanOneShareAt
          ) : (
            en.neededAreBetweenOneAndAll
          )
        ) : (
          <>
            {plural(n, en.share)}:{' '}
            {n === 1 ? (
              en.onePersonOpensAloneFitFor
            ) : (
              <>
                {en.ofPeopleHaveToComeTogether(
                  t,
                  n,
                  n - t === 0 ? en.ifOneIsLostAllIs : en.mayBeLost(plural(n - t, en.share)),
                )}
              </>
            )}
          </>
        )}
      </Note>
      <FormError error={run.error} />
      <Button kind="primary" type="submit" class="block" busy={run.busy} disabled={wrong}>
        {en.makeTheCluster}
      </Button>
    </Form>
  );
}

function Join() {
  const [address, setAddress] = useState('');
  const [ca, setCa] = useState('');
  const [joinToken, setJoinToken] = useState('');
  const [done, setDone] = useState(false);
  const run = useAction(async () => {
    await call('POST', 'sys/storage/raft/join', {
      token: '',
      ns: '',
      quiet: true,
      body: {
        leader_api_addr: address,
        leader_ca_cert: ca,
        ...(joinToken ? { join_token: joinToken } : {}),
      },
    });
    setDone(true);
  });
  if (done)
    return (
      <>
        <Note kind="ok">{en.thisServerJoinsItHasTo}</Note>
        <LinkButton kind="primary" href={href('unseal')}>
          {en.unseal}
        </LinkButton>
      </>
    );
  return (
    <Form name="setup/join" class="stack" onSubmit={() => run.run()}>
      <Field
        label={en.addressOfAServerOfThe}
        value={address}
        onInput={setAddress}
        mono
        placeholder={en.httpsKallisto18200}
        required
      />
      <Field
        label={en.joinToken}
        value={joinToken}
        onInput={setJoinToken}
        mono
        hint={common.optional}
      />
      <Field
        label={en.itsCertificateAuthorityPem}
        value={ca}
        onInput={setCa}
        rows={4}
        mono
        hint={common.optional}
      />
      <FormError error={run.error} />
      <Button kind="primary" type="submit" class="block" busy={run.busy}>
        {en.join}
      </Button>
    </Form>
  );
}

/** One share at a time to its holder; the root token last; then what to do first. */
function Shares({ made }: { made: Made }) {
  const [at, setAt] = useState(0);
  const [isShown, setShown] = useState(false);
  const [isStored, setStored] = useState(false);
  const total = made.keys.length;
  const isRoot = at === total;
  const text = isRoot ? made.root : (made.keys[at] ?? '');
  const next = (): void => {
    setShown(false);
    setStored(false);
    setAt(at + 1);
  };
  if (at > total) {
    guard.value = undefined;
    return (
      <Outside title={en.theClusterIsMade} wide>
        <ol class="checklist">
          <li>
            <Icon name="check" />
            <span>{en.theSharesAreWithTheirHolders}</span>
          </li>
          <li>
            <Icon name="key" />
            <span>
              <b>{en.unseal}</b> {en.withOfThem(made.threshold)}
            </span>
          </li>
          <li>
            <Icon name="audit" />
            <span>
              {en.signInWithTheRootToken} <b>{en.enableAnAuditDevice}</b>.
            </span>
          </li>
          <li>
            <Icon name="users" />
            <span>
              {en.make} <b>{en.aLoginAndAPolicyFor}</b>.
            </span>
          </li>
          <li>
            <Icon name="shield" />
            <span>
              <b>{en.revokeTheRootToken}</b> {en.aNewOneCanBeMade}
            </span>
          </li>
        </ol>
        <LinkButton kind="primary" href={href('unseal')} class="block">
          {en.unsealNow}
        </LinkButton>
      </Outside>
    );
  }
  const name = isRoot
    ? `kallisto-root-token-${made.cluster}.txt`
    : `kallisto-share-${at + 1}-of-${total}-${made.cluster}.txt`;
  return (
    <Outside
      title={isRoot ? en.theRootToken : en.shareOf(at + 1, total)}
      sub={isRoot ? en.itMayDoEverythingUseIt : en.forOneHolderAloneOthersLook}
    >
      <div class="code mono share">
        <code class="grow">{isShown ? text : '••••••••••••••••••••••••••••••••••••••••••••'}</code>
      </div>
      <div class="row wrap">
        <Button icon={isShown ? 'eyeoff' : 'eye'} onClick={() => setShown(!isShown)}>
          {isShown ? en.hide : en.reveal}
        </Button>
        <Button
          icon="copy"
          onClick={() =>
            void copySecret(text, isRoot ? en.rootToken : en.share2).then(() => setStored(true))
          }
        >
          {common.copy}
        </Button>
        <Button
          icon="dl"
          onClick={() => {
            download(
              name,
              isRoot
                ? `${text}\n`
                : en.kallistoKeyShareOfNeededCluster(
                    at + 1,
                    total,
                    made.threshold,
                    made.cluster,
                    text,
                  ),
              'text/plain',
            );
            setStored(true);
          }}
        >
          {common.download}
        </Button>
        <Button
          icon="file"
          onClick={() => {
            setShown(true);
            setStored(true);
            setTimeout(() => print(), 50);
          }}
        >
          {en.print}
        </Button>
      </div>
      <Note>{en.itIsShownOnceHereAnd}</Note>
      <label class="check">
        <input
          type="checkbox"
          checked={isStored}
          onChange={(event) => setStored(event.currentTarget.checked)}
        />
        <span>{isRoot ? en.itIsStored : en.itsHolderHasStoredIt}</span>
      </label>
      <Button kind="primary" class="block" disabled={!isStored} onClick={next}>
        {isRoot ? common.done : at + 1 === total ? en.onToTheRootToken : en.nextShare}
      </Button>
    </Outside>
  );
}

const POLL_MS = 2000;

/** Entering shares: progress that others' browsers make too, a wrong share, a new start. Calls `onOpen` once the server is open. */
export function UnsealSteps({ onOpen, onEmpty }: { onOpen: () => void; onEmpty?: () => void }) {
  const [share, setShare] = useState('');
  const [spoiled, setSpoiled] = useState('');
  const state = server.value;
  useEffect(() => {
    const ask = (): void =>
      void askServer().then((now) => {
        if (now.ok && now.initialized && !now.sealed) onOpen();
        else if (now.ok && !now.initialized) onEmpty?.();
      });
    ask();
    const timer = setInterval(() => {
      if (!document.hidden) ask();
    }, POLL_MS);
    return () => clearInterval(timer);
  }, []);
  const run = useAction(async () => {
    const before = server.peek().progress ?? 0;
    const sent = share.trim();
    setShare('');
    setSpoiled('');
    try {
      await call('PUT', 'sys/unseal', { token: '', ns: '', quiet: true, body: { key: sent } });
    } catch (error) {
      // The server begins anew after a set of shares that do not fit together: that, and not any failure, is a wrong share.
      const now = await askServer();
      if (
        error instanceof ApiError &&
        error.status === 400 &&
        before + 1 >= (now.threshold ?? 1) &&
        !now.progress
      ) {
        setSpoiled(en.withThisShareTheKeyDoes);
        return;
      }
      throw error;
    }
    const now = await askServer();
    if (!now.sealed) onOpen();
  });
  const reset = useAction(async () => {
    await call('PUT', 'sys/unseal', { token: '', ns: '', quiet: true, body: { reset: true } });
    setSpoiled('');
    await askServer();
  });
  const [k, n] = [state.progress ?? 0, state.threshold ?? 1];
  const isAuto = state.recovery || (state.type !== undefined && state.type !== 'shamir');
  if (isAuto)
    return (
      <Note>
        {en.itUnsealsItselfByIts} {state.type} {en.sealAndWaitsForThatTo}
      </Note>
    );
  return (
    <>
      <div
        class="steps"
        role="progressbar"
        aria-valuenow={k}
        aria-valuemin={0}
        aria-valuemax={n}
        aria-label={en.sharesEntered}
      >
        {Array.from({ length: n }, (_, i) => (
          <span class={i < k ? 'done' : ''} />
        ))}
      </div>
      <p class="soft">
        {en.ofSharesEntered(k, n)}
        {k > 0 && en.byAnybodyAtAnyBrowser}.
      </p>
      {spoiled && <Note kind="bad">{spoiled}</Note>}
      <Form name="unseal" class="stack" onSubmit={() => (share.trim() ? run.run() : undefined)}>
        <Field
          label={en.yourShare}
          value={share}
          onInput={setShare}
          mono
          masked
          autofocus
          hint={en.aWrongShareShowsOnlyWhen}
        />
        <FormError error={run.error} />
        <div class="row">
          <Button kind="primary" type="submit" busy={run.busy} disabled={!share.trim()}>
            {en.enterTheShare}
          </Button>
          {k > 0 && (
            <Button busy={reset.busy} icon="undo" onClick={() => void reset.run()}>
              {en.startAgain}
            </Button>
          )}
        </div>
      </Form>
    </>
  );
}

export function Unseal() {
  const state = server.value;
  const back = within(route.value.query.get('to') ?? '');
  useEffect(() => {
    document.title = en.unsealKallisto;
  }, []);
  const n = state.threshold ?? 1;
  return (
    <Outside title={en.thisServerIsSealed} sub={state.name}>
      <UnsealSteps
        onOpen={() => void go(back ?? href('login'), true)}
        onEmpty={() => void go(href('setup'), true)}
      />
      {back && (
        <p class="dim">
          {en.thenOnTo} <span class="mono">{back}</span>
        </p>
      )}
      {!state.ok && <Note kind="bad">{en.theServerDoesNotAnswer}</Note>}
      <Card pad>
        <dl class="kv">
          <dt>{common.cluster}</dt>
          <dd>{state.name || '–'}</dd>
          <dt>{common.seal}</dt>
          <dd>
            {state.type ?? '–'} <Tag>{en.ofIt(n, state.shares ?? n)}</Tag>
          </dd>
          <dt>{common.version}</dt>
          <dd>{state.version}</dd>
        </dl>
      </Card>
    </Outside>
  );
}
