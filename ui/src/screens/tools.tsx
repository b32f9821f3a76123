// Tools: wrapping, random bytes, hashes, passwords by a policy, and a console over the OpenAPI document with the caller's rights beside each route.
import * as common from '../en/common.ts';
import * as en from '../en/screens/tools.ts';
import { useState } from 'preact/hooks';
import { call, type Method } from '../lib/api.ts';
import { copy, copySecret } from '../lib/clipboard.ts';
import { useAction, useLoad } from '../lib/load.ts';
import { allows, useNeeds, type Capability } from '../lib/needs.ts';
import { href, route } from '../lib/router.ts';
import { visibleText } from '../lib/time.ts';
import { Button, Card, Failed, Field, FormError, Loading, Note, Page, Select, Tabs, Tag } from '../parts/ui.tsx';
import { List } from '../parts/list.tsx';

const PARTS = [['wrap', en.wrapping], ['random', en.random], ['hash', en.hash], ['password', en.passwords], ['api', en.apiConsole]] as const;

export function Tools() {
  const part = route.value.path.split('/')[1] ?? 'wrap';
  return <><Tabs label={en.tools} current={part} tabs={PARTS.map(([key, label]) => ({ key, label, href: href(`tools/${key}`) }))} />{part === 'random' ? <Random /> : part === 'hash' ? <Hash /> : part === 'password' ? <Passwords /> : part === 'api' ? <Console /> : <Wrap />}</>;
}

function Result({ text, secret }: { text: string; secret?: boolean }) {
  return text ? <div class="code mono"><code class="grow">{visibleText(text)}</code><Button size="sm" kind="ghost" icon="copy" label={en.copyTheResult} onClick={() => void (secret ? copySecret(text, en.result) : copy(text, en.result))} /></div> : null;
}

function Wrap() {
  const [what, setWhat] = useState<'wrap' | 'lookup' | 'unwrap' | 'rewrap'>('wrap');
  const [text, setText] = useState('');
  const [ttl, setTtl] = useState('3600');
  const [result, setResult] = useState('');
  const run = useAction(async () => {
    if (what === 'wrap') { const { wrap } = await call('POST', 'sys/wrapping/wrap', { body: JSON.parse(text) as object, wrapTtl: `${ttl}s` }); setResult(wrap?.token ?? ''); return; }
    const reply = await call('POST', `sys/wrapping/${what}`, { body: { token: text.trim() } });
    setResult(what === 'rewrap' ? (reply.wrap?.token ?? '') : JSON.stringify(reply.auth ?? reply.data, null, 2));
  });
  return <Page title={en.wrapping} sub={en.aTokenThatOpensOnceAnd}><Card pad><form class="stack" onSubmit={(event) => { event.preventDefault(); void run.run(); }}><Select label={common.whatToDo} value={what} onChange={(next) => { setWhat(next); setResult(''); setText(''); }} options={[['wrap', en.wrapJson], ['lookup', en.lookAtAWrappingToken], ['unwrap', en.unwrap], ['rewrap', en.rewrap]]} />{what === 'wrap' ? <><Field label={common.json} value={text} onInput={setText} rows={6} mono placeholder={'{ "password": "…" }'} /><Field label={en.seconds} value={ttl} onInput={setTtl} type="number" min={1} /></> : <Field label={en.wrappingToken} value={text} onInput={setText} mono masked />}<FormError error={run.error} /><div><Button kind="primary" type="submit" busy={run.busy} need={{ path: `sys/wrapping/${what}`, cap: ['update', 'create'] }} onClick={() => {}}>{what}</Button></div></form><Result text={result} secret /></Card></Page>;
}

function Random() {
  const [bytes, setBytes] = useState('32');
  const [format, setFormat] = useState<'base64' | 'hex'>('base64');
  const [result, setResult] = useState('');
  const run = useAction(async () => setResult((await call<{ random_bytes: string }>('POST', `sys/tools/random/${bytes}`, { body: { format } })).data.random_bytes));
  return <Page title={en.random} sub={en.fromTheServersOperatingSystem}><Card pad><form class="stack" onSubmit={(event) => { event.preventDefault(); void run.run(); }}><div class="pair"><Field label={en.bytes} type="number" min={1} value={bytes} onInput={setBytes} /><Select label={common.form} value={format} onChange={setFormat} options={[['base64', en.base64], ['hex', en.hexadecimal]]} /></div><FormError error={run.error} /><div><Button kind="primary" type="submit" busy={run.busy} need={{ path: 'sys/tools/random', cap: ['update', 'create'] }} onClick={() => {}}>{en.draw}</Button></div></form><Result text={result} secret /></Card></Page>;
}

function Hash() {
  const [text, setText] = useState('');
  const [algorithm, setAlgorithm] = useState<'sha2-256' | 'sha2-384' | 'sha2-512' | 'sha3-256' | 'sha3-384' | 'sha3-512'>('sha2-256');
  const [result, setResult] = useState('');
  const run = useAction(async () => setResult((await call<{ sum: string }>('POST', `sys/tools/hash/${algorithm}`, { body: { input: btoa(Array.from(new TextEncoder().encode(text), (byte) => String.fromCharCode(byte)).join('')), format: 'hex' } })).data.sum));
  return <Page title={en.hash}><Card pad><form class="stack" onSubmit={(event) => { event.preventDefault(); void run.run(); }}><Field label={common.text} value={text} onInput={setText} rows={4} mono /><Select label={en.algorithm} value={algorithm} onChange={setAlgorithm} options={(['sha2-256', 'sha2-384', 'sha2-512', 'sha3-256', 'sha3-384', 'sha3-512'] as const).map((one) => [one, one] as const)} /><FormError error={run.error} /><div><Button kind="primary" type="submit" busy={run.busy} need={{ path: 'sys/tools/hash', cap: ['update', 'create'] }} onClick={() => {}}>{en.hash}</Button></div></form><Result text={result} /></Card></Page>;
}

function Passwords() {
  const loaded = useLoad(async () => (await call<{ keys?: string[] }>('LIST', 'sys/policies/password').catch((error: { status?: number }) => { if (error.status === 404) return { data: { keys: [] as string[] } }; throw error; })).data.keys ?? [], []);
  const [name, setName] = useState('');
  const [result, setResult] = useState('');
  const run = useAction(async () => setResult((await call<{ password: string }>('GET', `sys/policies/password/${name}/generate`)).data.password));
  return <Page title={en.passwords} sub={en.byAPasswordPolicy}><Card pad><form class="stack" onSubmit={(event) => { event.preventDefault(); void run.run(); }}><Field label={en.policy} value={name} onInput={setName} mono list={loaded.data ?? []} /><FormError error={run.error} /><div><Button kind="primary" type="submit" busy={run.busy} disabled={!name}>{en.generate}</Button></div></form><Result text={result} secret />{loaded.data?.length === 0 && <Note>{en.thereIsNoPasswordPolicyYet} <span class="mono">kallisto write sys/policies/password/NAME policy=@file</span></Note>}</Card></Page>;
}

interface Route { method: Method; path: string; summary: string }
const CAP: Record<string, Capability> = { GET: 'read', POST: 'update', PUT: 'update', PATCH: 'patch', DELETE: 'delete', LIST: 'list' };

function Console() {
  const loaded = useLoad(async () => {
    const { body } = await call('GET', 'sys/internal/specs/openapi');
    const paths = (body['paths'] ?? (body['data'] as Record<string, any> | undefined)?.['paths'] ?? {}) as Record<string, Record<string, any>>;
    return Object.entries(paths).flatMap(([path, methods]) => Object.entries(methods).filter(([method]) => ['get', 'post', 'put', 'patch', 'delete', 'list'].includes(method)).map(([method, one]): Route => ({ method: method.toUpperCase() as Method, path: path.replace(/^\//, ''), summary: one['summary'] ?? one['operationId'] ?? '' })));
  }, []);
  const [text, setText] = useState('');
  const [method, setMethod] = useState<Method>('GET');
  const [path, setPath] = useState(route.peek().query.get('path') ?? 'sys/health');
  const [body, setBody] = useState('');
  const [result, setResult] = useState('');
  useNeeds([{ path, cap: CAP[method] ?? 'read' }]);
  const may = allows({ path, cap: CAP[method] ?? 'read' });
  const run = useAction(async () => { const reply = await call(method, path, { ...(body ? { text: body } : {}), quiet: true }); setResult(`${reply.status}\n${JSON.stringify(reply.body, null, 2)}`); });
  if (loaded.error) return <Failed error={loaded.error} retry={loaded.reload} />;
  const shown = (loaded.data ?? []).filter((one) => `${one.method} ${one.path}`.toLowerCase().includes(text.toLowerCase()));
  return (
    <Page title={en.apiConsole} sub={en.everyRouteOfThisServerRequests}>
      <div class="two">
        <Card title={common.request} pad><form class="stack" onSubmit={(event) => { event.preventDefault(); void run.run(); }}><div class="row"><Select label={en.method} value={method} onChange={setMethod} options={(['GET', en.list, 'POST', 'PUT', 'PATCH', 'DELETE'] as const).map((one) => [one, one] as const)} /><div class="grow"><Field label={common.path} value={path} onInput={setPath} mono /></div></div>{method !== 'GET' && method !== 'LIST' && <Field label={en.bodyJson} value={body} onInput={setBody} mono rows={6} />}<div class="row"><Button kind="primary" type="submit" icon="play" busy={run.busy}>{en.send}</Button>{may === false && <Tag kind="warn" icon="lock">{en.youLack} {CAP[method]}</Tag>}<Button icon="copy" onClick={() => void copy(`curl -s -X ${method} -H "X-Vault-Token: $VAULT_TOKEN"${body ? ` -d '${body.replaceAll("'", `'\\''`)}'` : ''} ${location.origin}/v1/${path}`, en.curlCommand)}>{en.copyAsCurl}</Button></div><FormError error={run.error} /></form>{result && <pre class="json mono" tabIndex={0}>{visibleText(result)}</pre>}</Card>
        <Card title={en.routes}><div class="pad"><Field label={common.filter} value={text} onInput={setText} /></div>{loaded.data ? <div class="routes"><List label={en.routes} rows={shown} keyOf={(one) => `${one.method} ${one.path}`} onOpen={(one) => { setMethod(one.method); setPath(one.path); }} render={(one) => <><span /><span class="name mono">{one.path}</span><span class="dim">{one.method}</span><span /></>} /></div> : <Loading />}</Card>
      </div>
    </Page>
  );
}
