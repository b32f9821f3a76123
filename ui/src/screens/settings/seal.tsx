// Seal and keys: seal now, rotate the data key, new shares or a new root token by several people with a nonce to compare.
import * as common from '../../en/common.ts';
import * as en from '../../en/screens/settings/seal.ts';
import { useState } from 'preact/hooks';
import { call, tryCall } from '../../lib/api.ts';
import { copySecret } from '../../lib/clipboard.ts';
import { download } from '../../lib/download.ts';
import { useAction, useLoad } from '../../lib/load.ts';
import { fromHere, href } from '../../lib/router.ts';
import { askServer } from '../../lib/server.ts';
import { server } from '../../lib/state.ts';
import { ago, count } from '../../lib/time.ts';
import { toast } from '../../lib/toasts.ts';
import { confirm, open, Sheet } from '../../parts/dialog.tsx';
import { Form } from '../../parts/form.tsx';
import { Button, Card, Code, Field, FormError, Note } from '../../parts/ui.tsx';

export function SealSettings() {
  const key = useLoad(
    async () => (await tryCall<Record<string, any>>('GET', 'sys/key-status'))?.data ?? null,
    [],
  );
  const seal = useAction(async () => {
    if (
      await confirm({
        title: en.sealThisCluster,
        text: en.everyRequestIsRefusedUntilEnough,
        action: common.seal,
        danger: true,
        typed: 'seal',
      })
    ) {
      const goOn = fromHere();
      await call('PUT', 'sys/seal', { quiet: true });
      await askServer();
      void goOn(href('unseal'));
    }
  });
  const rotate = useAction(async () => {
    await call('POST', 'sys/rotate', { body: {} });
    toast(en.aNewDataKeyEncryptsFrom);
    key.reload();
  });
  return (
    <>
      <Card title={common.seal} pad>
        <dl class="kv">
          <dt>{common.kind}</dt>
          <dd>{server.value.type}</dd>
          <dt>{en.shares}</dt>
          <dd>
            {server.value.threshold} {en.ofIt} {server.value.shares}
          </dd>
        </dl>
        <FormError error={seal.error} />
        <div>
          <Button
            kind="danger"
            icon="lock"
            busy={seal.busy}
            need={{ path: 'sys/seal', cap: ['update', 'sudo'] }}
            onClick={() => void seal.run()}
          >
            {en.sealNow}
          </Button>
        </div>
      </Card>
      <Card title={en.dataKey} pad>
        {key.data ? (
          <dl class="kv">
            <dt>{common.version}</dt>
            <dd>{key.data['term']}</dd>
            <dt>{en.since}</dt>
            <dd>{ago(key.data['install_time'] as string)}</dd>
            {key.data['encryptions'] !== undefined && (
              <>
                <dt>{en.encryptions}</dt>
                <dd class="num">{count(key.data['encryptions'] as number)}</dd>
              </>
            )}
          </dl>
        ) : (
          <p class="soft">
            {en.itsStateNeedsReadOn} <span class="mono">sys/key-status</span>.
          </p>
        )}
        <FormError error={rotate.error} />
        <div>
          <Button
            icon="undo"
            busy={rotate.busy}
            need={{ path: 'sys/rotate', cap: ['update', 'sudo'] }}
            onClick={() => void rotate.run()}
          >
            {en.rotate}
          </Button>
        </div>
      </Card>
      <Wizard
        at="sys/rekey"
        title={en.newKeyShares}
        start={(n, t) => ({ secret_shares: n, secret_threshold: t })}
      />
      <Root />
    </>
  );
}

function Wizard({
  at,
  title,
  start,
}: {
  at: string;
  title: string;
  start: (shares: number, threshold: number) => object;
}) {
  const loaded = useLoad(
    async () => (await tryCall<Record<string, any>>('GET', `${at}/init`))?.body ?? {},
    [at],
  );
  const [share, setShare] = useState('');
  const [n, setN] = useState('5');
  const [t, setT] = useState('3');
  const state = (loaded.data ?? {}) as Record<string, any>;
  const status = (
    state['data'] && Object.keys(state['data'] as object).length ? state['data'] : state
  ) as Record<string, any>;
  const begin = useAction(async () => {
    await call('PUT', `${at}/init`, { body: start(Number(n), Number(t)) });
    loaded.reload();
  });
  const cancel = useAction(async () => {
    await call('DELETE', `${at}/init`, { body: { nonce: status['nonce'] } });
    loaded.reload();
  });
  const give = useAction(async () => {
    const sent = share;
    setShare('');
    const reply = await call('PUT', `${at}/update`, {
      body: { key: sent, nonce: status['nonce'] },
    });
    const keys = (reply.body['keys_base64'] ?? reply.data['keys_base64']) as string[] | undefined;
    if (keys)
      void open<void>((close) => (
        <Sheet
          title={en.theNewShares}
          actions={
            <Button kind="primary" onClick={() => close()}>
              {en.allAreStored}
            </Button>
          }
        >
          <Note kind="warn">{en.theyAreDownloadedOneByOne}</Note>
          {keys.map((key, i) => (
            <Button
              key={key}
              icon="dl"
              onClick={() =>
                download(
                  `kallisto-share-${i + 1}-of-${keys.length}-${server.peek().name}.txt`,
                  `${key}\n`,
                  'text/plain',
                )
              }
            >
              {en.share(i + 1)}
            </Button>
          ))}
        </Sheet>
      ));
    loaded.reload();
  });
  return (
    <Card title={title} pad>
      {status['started'] ? (
        <>
          <p class="soft">
            {en.underWay} {status['progress']} {en.ofIt} {status['required']} {en.oldSharesNonce}{' '}
            <span class="mono">{status['nonce']}</span>
            {en.compareItWithWhoeverBegan}
          </p>
          <Form name="rekey/share" class="row" onSubmit={() => give.run()}>
            <div class="grow">
              <Field label={en.anOldShare} value={share} onInput={setShare} mono masked />
            </div>
            <Button kind="primary" type="submit" class="at-end" busy={give.busy} disabled={!share}>
              {en.give}
            </Button>
          </Form>
          <div>
            <Button onClick={() => void cancel.run()}>{en.cancelIt}</Button>
          </div>
        </>
      ) : (
        <Form name="rekey/begin" class="row" onSubmit={() => begin.run()}>
          <Field label={en.shares} type="number" min={1} value={n} onInput={setN} />
          <Field label={en.needed} type="number" min={1} value={t} onInput={setT} />
          <Button
            type="submit"
            class="at-end"
            busy={begin.busy}
            need={{ path: `${at}/init`, cap: ['update', 'create'] }}
            onClick={() => {}}
          >
            {en.begin}
          </Button>
          <p class="dim full">{en.oldSharesStayUntilTheEnd}</p>
        </Form>
      )}
      <FormError error={begin.error ?? give.error ?? cancel.error} />
    </Card>
  );
}

/** The token that the last share brought, behind the one-time password that was given at the beginning. */
function decodeRoot(encoded: string, otp: string): string {
  const bytes = atob(encoded.padEnd(Math.ceil(encoded.length / 4) * 4, '='));
  return Array.from(bytes, (char, i) =>
    String.fromCharCode(char.charCodeAt(0) ^ otp.charCodeAt(i)),
  ).join('');
}

/** A new root token, by as many holders as unseal; the password that opens the answer is in this page alone. */
function Root() {
  const at = 'sys/generate-root';
  const loaded = useLoad(async () => {
    const reply = await tryCall<Record<string, any>>('GET', `${at}/attempt`);
    return { ...reply?.body, ...reply?.data } as Record<string, any>;
  }, []);
  const [otp, setOtp] = useState('');
  const [share, setShare] = useState('');
  const state = loaded.data ?? {};
  const begin = useAction(async () => {
    const { body, data } = await call<Record<string, any>>('PUT', `${at}/attempt`, { body: {} });
    setOtp(String(data['otp'] ?? body['otp'] ?? ''));
    loaded.reload();
  });
  const cancel = useAction(async () => {
    await call('DELETE', `${at}/attempt`, { body: { nonce: state['nonce'] } });
    setOtp('');
    loaded.reload();
  });
  const give = useAction(async () => {
    const sent = share.trim();
    setShare('');
    const { body, data } = await call<Record<string, any>>('PUT', `${at}/update`, {
      body: { key: sent, nonce: state['nonce'] },
    });
    const done = { ...body, ...data };
    const encoded = String(done['encoded_token'] ?? done['encoded_root_token'] ?? '');
    if (done['complete'] && encoded) {
      const made = otp ? decodeRoot(encoded, otp) : '';
      setOtp('');
      void open<void>((close) => (
        <Sheet
          title={en.theRootToken}
          actions={
            <Button kind="primary" onClick={() => close()}>
              {en.itIsStored}
            </Button>
          }
        >
          {made ? (
            <>
              <Note kind="warn">{en.itIsShownOnceHereAnd}</Note>
              <div class="row">
                <Button icon="copy" onClick={() => void copySecret(made, en.rootToken)}>
                  {common.copy}
                </Button>
              </div>
            </>
          ) : (
            <>
              <Note>{en.whoeverBeganHasTheOneTime}</Note>
              <Code text={`kallisto operator generate-root -decode=${encoded} -otp=…`} />
            </>
          )}
        </Sheet>
      ));
    }
    loaded.reload();
  });
  return (
    <Card title={en.aNewRootToken} pad>
      {state['started'] ? (
        <>
          <p class="soft">
            {en.underWay} {state['progress']} {en.ofIt} {state['required']} {en.sharesNonce}{' '}
            <span class="mono">{state['nonce']}</span>
            {en.compareItWithWhoeverBegan2(otp && en.theAnswerOpensInThisPage)}
          </p>
          <Form name="generate-root/share" class="row" onSubmit={() => give.run()}>
            <div class="grow">
              <Field
                label={en.aShareForTheRootToken}
                value={share}
                onInput={setShare}
                mono
                masked
              />
            </div>
            <Button kind="primary" type="submit" class="at-end" busy={give.busy} disabled={!share}>
              {en.give}
            </Button>
          </Form>
          <div>
            <Button busy={cancel.busy} onClick={() => void cancel.run()}>
              {en.cancelIt}
            </Button>
          </div>
        </>
      ) : (
        <>
          <p class="soft">{en.byAsManyHoldersAsUnseal}</p>
          <div>
            <Button
              icon="key"
              busy={begin.busy}
              need={{ path: `${at}/attempt`, cap: ['update', 'create'] }}
              onClick={() => void begin.run()}
            >
              {en.begin}
            </Button>
          </div>
        </>
      )}
      <FormError error={begin.error ?? give.error ?? cancel.error} />
    </Card>
  );
}
