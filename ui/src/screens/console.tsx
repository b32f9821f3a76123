// A console over the OpenAPI document: every route of every mount with its fields, the caller's right beside it, and the answer. It is also the screen of
// engines that have none of their own (`?at=MOUNT/` shows the routes of one mount): certificates, SSH, databases, RabbitMQ, directories, Kubernetes.
import * as common from '../en/common.ts';
import * as en from '../en/screens/console.ts';
import { useState } from 'preact/hooks';
import { call, type Method } from '../lib/api.ts';
import { copy, copySecret } from '../lib/clipboard.ts';
import { useAction, useLoad } from '../lib/load.ts';
import { allows, useNeeds, type Capability } from '../lib/needs.ts';
import { route } from '../lib/router.ts';
import { visible, visibleText } from '../lib/time.ts';
import { confirm } from '../parts/dialog.tsx';
import { Form } from '../parts/form.tsx';
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

/** What a field is sent as; the words of one that is not of its kind. */
function valueOf(name: string, { type, items }: Property, text: string): unknown {
  if (type === 'boolean') return text === 'true';
  if (type === 'integer' || type === 'number') {
    const number = Number(text);
    if (Number.isNaN(number)) throw new Error(en.isNoNumber(name));
    return number;
  }
  if (type === 'object') {
    try {
      return JSON.parse(text) as unknown;
    } catch {
      throw new Error(en.isNoJson(name));
    }
  }
  // A statement may have commas in it: a list of lines is one, where there are lines.
  if (type === 'array') {
    const parts = (
      text.includes('\n') ? text.split('\n') : text.includes('{{') ? [text] : text.split(',')
    )
      .map((one) => one.trim())
      .filter(Boolean);
    return items?.type === 'integer' ? parts.map(Number) : parts;
  }
  return text;
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
  return (
    <Field
      label={name}
      value={value}
      onInput={set}
      mono
      hint={
        property.type === 'array'
          ? `${hint ?? ''} ${isLong ? en.oneALine : en.withCommas}`.trim()
          : hint
      }
      masked={HIDDEN.test(name)}
      {...(isLong ? { rows: 3 } : {})}
    />
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
  const [path, setPath] = useState(at ? '' : (route.peek().query.get('path') ?? 'sys/health'));
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
      ? JSON.stringify(
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
    const reply = await call(method, filled, { ...(made ? { text: made } : {}), quiet: false });
    setResult(
      `${reply.status}\n${reply.status === 204 ? en.doneWithoutAnAnswer : JSON.stringify(reply.body, null, 2)}`,
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
  const curl = (): void => {
    let made = '';
    try {
      made = sent();
    } catch {
      /* What is not of its kind is said by sending it. */
    }
    void copy(
      `curl -s -X ${method} -H "X-Vault-Token: $VAULT_TOKEN"${made ? ` -d '${made.replaceAll("'", `'\\''`)}'` : ''} ${location.origin}/v1/${filled}`,
      en.curlCommand,
    );
  };
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
                <Field label={common.path} value={path} onInput={setPath} mono />
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
            <FormError error={run.error} />
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
              <Button icon="copy" onClick={curl}>
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
