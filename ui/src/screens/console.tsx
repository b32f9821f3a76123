// A console over the OpenAPI document: every route of every mount with its fields, the caller's right beside it, and the answer. It is also the screen of
// engines that have none of their own (`?at=MOUNT/` shows the routes of one mount): certificates, SSH, databases, RabbitMQ, directories, Kubernetes.
import * as common from '../en/common.ts';
import * as en from '../en/screens/console.ts';
import { useState } from 'preact/hooks';
import { call, urlOf, type Method } from '../lib/api.ts';
import { copy, copySecret } from '../lib/clipboard.ts';
import { Num, parseJson, writeJson, type Data, type Json } from '../lib/json.ts';
import { useAction, useLoad } from '../lib/load.ts';
import { allows, useNeeds, type Capability } from '../lib/needs.ts';
import { route } from '../lib/router.ts';
import { quoted } from '../lib/shell.ts';
import { namespace } from '../lib/state.ts';
import { visible, visibleText } from '../lib/time.ts';
import { confirm } from '../parts/dialog.tsx';
import { Form } from '../parts/form.tsx';
import { useLines } from '../parts/lines.ts';
import { List } from '../parts/list.tsx';
import {
  Button,
  Card,
  Failed,
  Field,
  FormError,
  Loading,
  Page,
  Segments,
  Select,
  Tag,
} from '../parts/ui.tsx';

interface Property {
  type?: string;
  description?: string;
  items?: { type?: string };
}
interface Route {
  method: Method;
  path: string;
  summary: string;
  fields: [string, Property][];
  params: [string, string][];
}
type Document = Record<string, Record<string, any>>;
const METHODS = ['get', 'post', 'put', 'patch', 'delete', 'list'];
const CAP: Record<string, Capability> = {
  GET: 'read',
  POST: 'update',
  PUT: 'update',
  PATCH: 'patch',
  DELETE: 'delete',
  LIST: 'list',
};
/** Fields whose text is nobody's to see over a shoulder. */
const HIDDEN = /(^|_)(password|bindpass|secret|secret_key|private_key|token|api_token|pem_bundle)$/;

/** The routes of the document: a GET that lists is LIST here, as in policies. */
function routesOf(paths: Document): Route[] {
  return Object.entries(paths).flatMap(([path, methods]) =>
    Object.entries(methods)
      .filter(([method]) => METHODS.includes(method))
      .map(([method, one]): Route => {
        const isList =
          method === 'get' &&
          ((one['parameters'] ?? []) as Record<string, any>[]).some(
            (parameter) => parameter['name'] === 'list' && parameter['required'],
          );
        const content = Object.values(
          (one['requestBody']?.content ?? {}) as Record<
            string,
            { schema?: { properties?: Record<string, Property> } }
          >,
        )[0];
        return {
          method: (isList ? 'LIST' : method.toUpperCase()) as Method,
          path: path.replace(/^\//, '').replace(isList ? /\/$/ : /$^/, ''),
          summary: one['summary'] ?? one['operationId'] ?? '',
          fields: Object.entries(content?.schema?.properties ?? {}),
          params: ((methods['parameters'] ?? []) as Record<string, any>[])
            .filter((parameter) => parameter['in'] === 'path')
            .map((parameter) => [
              String(parameter['name']),
              String(parameter['description'] ?? ''),
            ]),
        };
      }),
  );
}

/** Routes that programs speak to each other come last. */
const isProtocol = ({ path }: Route): boolean => /(^|\/)(acme|est|cmp|scep)\//.test(path);

/** JSON as it was written, or `undefined`. */
function jsonOf(text: string): Json | undefined {
  try {
    return parseJson(text);
  } catch {
    return undefined;
  }
}

function numberOf(name: string, text: string): Num {
  const number = jsonOf(text);
  if (!(number instanceof Num)) throw new Error(en.isNoNumber(name));
  return number;
}

/** What a field is sent as, numbers as they were written; the words of one that is not of its kind. */
function valueOf(name: string, { type, items }: Property, text: string): Json {
  if (type === 'boolean') return text === 'true';
  if (type === 'integer' || type === 'number') return numberOf(name, text);
  if (type === 'object') {
    const value = jsonOf(text);
    if (value === undefined) throw new Error(en.isNoJson(name));
    return value;
  }
  if (type === 'array') {
    const parts = itemsOf(text);
    return items?.type === 'integer' ? parts.map((part) => numberOf(name, part)) : parts;
  }
  return text;
}

/** A list: keys and certificates one after the other, or one a line where there are lines, since a statement may have commas in it. */
const itemsOf = (text: string): string[] =>
  text.match(/-----BEGIN [^-]+-----[^]*?-----END [^-]+-----/g) ??
  (text.includes('\n') ? text.split('\n') : text.includes('{{') ? [text] : text.split(','))
    .map((one) => one.trim())
    .filter(Boolean);

/** An address as people write it: a slash or `/v1/` before it, a query behind it. */
function parts(address: string): { path: string; query: Record<string, string> } {
  const at = address.indexOf('?');
  const path = at < 0 ? address : address.slice(0, at);
  return {
    path: path.trim().replace(/^\/*(v1\/)?/, ''),
    query: at < 0 ? {} : Object.fromEntries(new URLSearchParams(address.slice(at))),
  };
}

function Input({
  name,
  property,
  value,
  set,
}: {
  name: string;
  property: Property;
  value: string;
  set: (value: string) => void;
}) {
  const hint = property.description;
  const lines = useLines(value, set);
  if (property.type === 'boolean')
    return (
      <div class="labelled">
        <Select
          label={name}
          value={value as ''}
          onChange={set}
          options={[
            ['', en.notSaid],
            ['true', en.yes],
            ['false', en.no],
          ]}
        />
        {hint && <p class="dim hint">{hint}</p>}
      </div>
    );
  const isLong =
    property.type === 'object' ||
    /(^|_)(statements|certificate|ca_cert|csr|pem_bundle|private_key|policy|rules|template)$/.test(
      name,
    );
  const isArea = isLong || lines.isArea;
  return (
    <div ref={lines.box} onPaste={lines.onPaste}>
      <Field
        label={name}
        value={value}
        onInput={set}
        mono
        hint={
          property.type === 'array'
            ? `${hint ?? ''} ${isArea ? en.oneALine : en.withCommas}`.trim()
            : hint
        }
        masked={HIDDEN.test(name)}
        {...(isArea ? { rows: 3 } : {})}
      />
    </div>
  );
}

export function Console() {
  const at = route.peek().query.get('at') ?? '';
  const loaded = useLoad(async () => {
    const { body } = await call('GET', 'sys/internal/specs/openapi');
    return routesOf(
      (body['paths'] ??
        (body['data'] as Record<string, any> | undefined)?.['paths'] ??
        {}) as Document,
    );
  }, []);
  const [text, setText] = useState(at);
  const [method, setMethod] = useState<Method>('GET');
  const [address, setPath] = useState(at ? '' : (route.peek().query.get('path') ?? 'sys/health'));
  const { path, query } = parts(address);
  const [form, setForm] = useState<'fields' | 'json'>('fields');
  const [values, setValues] = useState<Record<string, string>>({});
  const [params, setParams] = useState<Record<string, string>>({});
  const [body, setBody] = useState('');
  const [result, setResult] = useState('');
  const known = (loaded.data ?? []).find((one) => one.method === method && one.path === path);
  const filled = path.replace(/\{(\w+)\}/g, (whole, name: string) => params[name] || whole);
  const need = { path: filled, cap: CAP[method] ?? 'read' };
  useNeeds([need]);
  const may = allows(need);
  const hasBody = method !== 'GET' && method !== 'LIST' && method !== 'DELETE';
  const byFields = hasBody && form === 'fields' && (known?.fields.length ?? 0) > 0;
  const open = (one: Route): void => {
    setMethod(one.method);
    setPath(one.path);
    setValues({});
    setParams({});
    setBody('');
    setResult('');
    if (matchMedia('(max-width: 60rem)').matches)
      setTimeout(() =>
        document.querySelector('form[data-form="tools/api"]')?.scrollIntoView({ block: 'start' }),
      );
  };
  const sent = (): string =>
    byFields
      ? writeJson(
          Object.fromEntries(
            (known?.fields ?? []).flatMap(([name, property]) =>
              (values[name] ?? '') === ''
                ? []
                : [[name, valueOf(name, property, values[name] ?? '')]],
            ),
          ),
        )
      : hasBody
        ? body
        : '';
  const run = useAction(async () => {
    const missing = /\{(\w+)\}/.exec(filled)?.[1];
    if (missing) throw new Error(en.isMissing(missing));
    const made = sent();
    if (
      method === 'DELETE' &&
      !(await confirm({
        title: en.deleteIt(filled),
        text: en.whatThisRouteHoldsIsGone,
        action: common.deleteIt,
        danger: true,
      }))
    )
      return;
    setResult('');
    const reply = await call(method, filled, {
      ...(made ? { text: made } : {}),
      query,
      exact: true,
      quiet: false,
    });
    setResult(
      `${reply.status}\n${reply.status === 204 ? en.doneWithoutAnAnswer : writeJson(reply.body as Data, 2)}`,
    );
  });
  const curl = useAction(async () => {
    let made = '';
    try {
      made = sent();
    } catch {
      /* What is not of its kind is said by sending it. */
    }
    const ns = namespace.peek();
    const body = made ? ` -d ${quoted(made)}` : '';
    await copy(
      `curl -s -X ${method} -H "X-Vault-Token: $VAULT_TOKEN"${ns ? ` -H ${quoted(`X-Vault-Namespace: ${ns}`)}` : ''}${body} ${quoted(location.origin + urlOf(filled, query))}`,
      en.curlCommand,
    );
  });
  if (loaded.error) return <Failed error={loaded.error} retry={loaded.reload} />;
  const wanted = text.toLowerCase().split(/\s+/).filter(Boolean);
  const shown = (loaded.data ?? [])
    .filter((one) => {
      const all = `${one.method} ${one.path} ${one.summary}`.toLowerCase();
      return wanted.every((word) => all.includes(word));
    })
    .sort((a, b) => Number(isProtocol(a)) - Number(isProtocol(b)));
  return (
    <Page
      title={at ? <span class="mono">{visible(at)}</span> : en.apiConsole}
      sub={at ? en.everyRouteOfThisMountChoose : en.everyRouteOfThisServerRequests}
    >
      <div class="console">
        <Card title={en.routes}>
          <div class="pad">
            <Field
              label={common.filter}
              value={text}
              onInput={setText}
              placeholder={en.pathOrWords}
            />
          </div>
          {loaded.data ? (
            <div class="routes">
              <List
                label={en.routes}
                rows={shown}
                keyOf={(one) => `${one.method} ${one.path}`}
                current={known ? `${method} ${path}` : undefined}
                onOpen={open}
                empty={<p class="none">{en.noRouteHasIt}</p>}
                render={(one) => (
                  <>
                    <span />
                    <span class="name mono" title={one.summary}>
                      {one.path.slice(at && one.path.startsWith(at) ? at.length : 0) || one.path}
                    </span>
                    <span class="dim">{one.method}</span>
                    <span />
                  </>
                )}
              />
            </div>
          ) : (
            <Loading />
          )}
        </Card>
        <Card
          title={common.request}
          actions={
            hasBody && (known?.fields.length ?? 0) > 0 ? (
              <Segments
                label={common.form}
                value={form}
                options={[
                  ['fields', en.fields],
                  ['json', common.json],
                ]}
                onChange={setForm}
              />
            ) : undefined
          }
          pad
        >
          <Form name="tools/api" class="stack" onSubmit={() => run.run()}>
            <div class="row">
              <Select
                label={en.method}
                value={method}
                onChange={setMethod}
                options={(['GET', en.list, 'POST', 'PUT', 'PATCH', 'DELETE'] as const).map(
                  (one) => [one as Method, one] as const,
                )}
              />
              <div class="grow">
                <Field label={common.path} value={address} onInput={setPath} mono />
              </div>
            </div>
            {known && <p class="soft">{known.summary}</p>}
            {known?.params.map(([name, about]) => (
              <Field
                key={`${path}${name}`}
                label={name}
                value={params[name] ?? ''}
                onInput={(value) => setParams({ ...params, [name]: value })}
                mono
                hint={about}
              />
            ))}
            {byFields ? (
              <div class="filters wide fields">
                {known?.fields.map(([name, property]) => (
                  <Input
                    key={`${path}${name}`}
                    name={name}
                    property={property}
                    value={values[name] ?? ''}
                    set={(value) => setValues({ ...values, [name]: value })}
                  />
                ))}
              </div>
            ) : (
              hasBody && <Field label={en.bodyJson} value={body} onInput={setBody} mono rows={6} />
            )}
            <FormError error={run.error ?? curl.error} />
            <div class="row">
              <Button
                kind={method === 'DELETE' ? 'danger' : 'primary'}
                type="submit"
                icon="play"
                busy={run.busy}
                disabled={!path}
              >
                {en.send}
              </Button>
              <Button icon="copy" onClick={() => void curl.run()}>
                {en.copyAsCurl}
              </Button>
              {may === false && (
                <Tag kind="warn" icon="lock">
                  {en.youLack} {CAP[method]}
                </Tag>
              )}
            </div>
          </Form>
          {result && (
            <>
              <div class="row">
                <h3 class="grow">{en.answer}</h3>
                <Button
                  size="sm"
                  kind="ghost"
                  icon="copy"
                  label={en.copyTheAnswer}
                  onClick={() => void copySecret(result.slice(result.indexOf('\n') + 1), en.answer)}
                />
              </div>
              <pre class="json mono" tabIndex={0}>
                {visibleText(result)}
              </pre>
            </>
          )}
        </Card>
      </div>
    </Page>
  );
}
