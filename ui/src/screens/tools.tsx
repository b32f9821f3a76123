// Tools: wrapping, random bytes, hashes, passwords by a policy, and the console.
import * as common from '../en/common.ts';
import * as en from '../en/screens/tools.ts';
import { useState } from 'preact/hooks';
import { call } from '../lib/api.ts';
import { copy, copySecret } from '../lib/clipboard.ts';
import { parseJson, writeJson, type Json } from '../lib/json.ts';
import { useAction, useLoad } from '../lib/load.ts';
import { href, route } from '../lib/router.ts';
import { visibleText } from '../lib/time.ts';
import { Console } from './console.tsx';
import { Form } from '../parts/form.tsx';
import { Button, Card, Field, FormError, Note, Page, Select, Tabs } from '../parts/ui.tsx';

const PARTS = [
  ['wrap', en.wrapping],
  ['random', en.random],
  ['hash', en.hash],
  ['password', en.passwords],
  ['api', en.apiConsole],
] as const;

export function Tools() {
  const part = route.value.path.split('/')[1] ?? 'wrap';
  return (
    <>
      <Tabs
        label={en.tools}
        current={part}
        tabs={PARTS.map(([key, label]) => ({ key, label, href: href(`tools/${key}`) }))}
      />
      {part === 'random' ? (
        <Random />
      ) : part === 'hash' ? (
        <Hash />
      ) : part === 'password' ? (
        <Passwords />
      ) : part === 'api' ? (
        <Console />
      ) : (
        <Wrap />
      )}
    </>
  );
}

function Result({ text, secret }: { text: string; secret?: boolean }) {
  return text ? (
    <div class="code mono">
      <code class="grow">{visibleText(text)}</code>
      <Button
        size="sm"
        kind="ghost"
        icon="copy"
        label={en.copyTheResult}
        onClick={() => void (secret ? copySecret(text, en.result) : copy(text, en.result))}
      />
    </div>
  ) : null;
}

function Wrap() {
  const [what, setWhat] = useState<'wrap' | 'lookup' | 'unwrap' | 'rewrap'>('wrap');
  const [text, setText] = useState('');
  const [ttl, setTtl] = useState('3600');
  const [result, setResult] = useState('');
  const run = useAction(async () => {
    if (what === 'wrap') {
      const { wrap } = await call('POST', 'sys/wrapping/wrap', {
        text: writeJson(parseJson(text)),
        wrapTtl: `${ttl}s`,
      });
      setResult(wrap?.token ?? '');
      return;
    }
    const reply = await call('POST', `sys/wrapping/${what}`, {
      body: { token: text.trim() },
      exact: true,
    });
    setResult(
      what === 'rewrap'
        ? (reply.wrap?.token ?? '')
        : writeJson((reply.body['auth'] ?? reply.data) as Json, 2),
    );
  });
  return (
    <Page title={en.wrapping} sub={en.aTokenThatOpensOnceAnd}>
      <Card pad>
        <Form name="tools/wrap" class="stack" onSubmit={() => run.run()}>
          <Select
            label={common.whatToDo}
            value={what}
            onChange={(next) => {
              setWhat(next);
              setResult('');
              setText('');
            }}
            options={[
              ['wrap', en.wrapJson],
              ['lookup', en.lookAtAWrappingToken],
              ['unwrap', en.unwrap],
              ['rewrap', en.rewrap],
            ]}
          />
          {what === 'wrap' ? (
            <>
              <Field
                label={common.json}
                value={text}
                onInput={setText}
                rows={6}
                mono
                placeholder={'{ "password": "…" }'}
              />
              <Field label={en.seconds} value={ttl} onInput={setTtl} type="number" min={1} />
            </>
          ) : (
            <Field label={en.wrappingToken} value={text} onInput={setText} mono masked />
          )}
          <FormError error={run.error} />
          <div>
            <Button
              kind="primary"
              type="submit"
              busy={run.busy}
              need={{ path: `sys/wrapping/${what}`, cap: ['update', 'create'] }}
              onClick={() => {}}
            >
              {what}
            </Button>
          </div>
        </Form>
        <Result text={result} secret />
      </Card>
    </Page>
  );
}

function Random() {
  const [bytes, setBytes] = useState('32');
  const [format, setFormat] = useState<'base64' | 'hex'>('base64');
  const [result, setResult] = useState('');
  const run = useAction(async () =>
    setResult(
      (
        await call<{ random_bytes: string }>('POST', `sys/tools/random/${bytes}`, {
          body: { format },
        })
      ).data.random_bytes,
    ),
  );
  return (
    <Page title={en.random} sub={en.fromTheServersOperatingSystem}>
      <Card pad>
        <Form name="tools/random" class="stack" onSubmit={() => run.run()}>
          <div class="pair">
            <Field label={en.bytes} type="number" min={1} value={bytes} onInput={setBytes} />
            <Select
              label={common.form}
              value={format}
              onChange={setFormat}
              options={[
                ['base64', en.base64],
                ['hex', en.hexadecimal],
              ]}
            />
          </div>
          <FormError error={run.error} />
          <div>
            <Button
              kind="primary"
              type="submit"
              busy={run.busy}
              need={{ path: 'sys/tools/random', cap: ['update', 'create'] }}
              onClick={() => {}}
            >
              {en.draw}
            </Button>
          </div>
        </Form>
        <Result text={result} secret />
      </Card>
    </Page>
  );
}

function Hash() {
  const [text, setText] = useState('');
  const [algorithm, setAlgorithm] = useState<
    'sha2-256' | 'sha2-384' | 'sha2-512' | 'sha3-256' | 'sha3-384' | 'sha3-512'
  >('sha2-256');
  const [result, setResult] = useState('');
  const run = useAction(async () =>
    setResult(
      (
        await call<{ sum: string }>('POST', `sys/tools/hash/${algorithm}`, {
          body: {
            input: btoa(
              Array.from(new TextEncoder().encode(text), (byte) => String.fromCharCode(byte)).join(
                '',
              ),
            ),
            format: 'hex',
          },
        })
      ).data.sum,
    ),
  );
  return (
    <Page title={en.hash}>
      <Card pad>
        <Form name="tools/hash" class="stack" onSubmit={() => run.run()}>
          <Field label={common.text} value={text} onInput={setText} rows={4} mono />
          <Select
            label={en.algorithm}
            value={algorithm}
            onChange={setAlgorithm}
            options={(
              ['sha2-256', 'sha2-384', 'sha2-512', 'sha3-256', 'sha3-384', 'sha3-512'] as const
            ).map((one) => [one, one] as const)}
          />
          <FormError error={run.error} />
          <div>
            <Button
              kind="primary"
              type="submit"
              busy={run.busy}
              need={{ path: 'sys/tools/hash', cap: ['update', 'create'] }}
              onClick={() => {}}
            >
              {en.hash}
            </Button>
          </div>
        </Form>
        <Result text={result} />
      </Card>
    </Page>
  );
}

function Passwords() {
  const loaded = useLoad(
    async () =>
      (
        await call<{ keys?: string[] }>('LIST', 'sys/policies/password').catch(
          (error: { status?: number }) => {
            if (error.status === 404) return { data: { keys: [] as string[] } };
            throw error;
          },
        )
      ).data.keys ?? [],
    [],
  );
  const [name, setName] = useState('');
  const [result, setResult] = useState('');
  const run = useAction(async () =>
    setResult(
      (await call<{ password: string }>('GET', `sys/policies/password/${name}/generate`)).data
        .password,
    ),
  );
  return (
    <Page title={en.passwords} sub={en.byAPasswordPolicy}>
      <Card pad>
        <Form name="tools/password" class="stack" onSubmit={() => run.run()}>
          <Field label={en.policy} value={name} onInput={setName} mono list={loaded.data ?? []} />
          <FormError error={run.error} />
          <div>
            <Button kind="primary" type="submit" busy={run.busy} disabled={!name}>
              {en.generate}
            </Button>
          </div>
        </Form>
        <Result text={result} secret />
        {loaded.data?.length === 0 && (
          <Note>
            {en.thereIsNoPasswordPolicyYet}{' '}
            <span class="mono">kallisto write sys/policies/password/NAME policy=@file</span>
          </Note>
        )}
      </Card>
    </Page>
  );
}
