// This browser's look, and what the operator tells all: banner and times (contract E2), headers, other origins.
import * as common from '../../en/common.ts';
import * as en from '../../en/screens/settings/browser.ts';
import { useState } from 'preact/hooks';
import { call, tryCall } from '../../lib/api.ts';
import { useAction, useLoad } from '../../lib/load.ts';
import { can } from '../../lib/needs.ts';
import { density, keysOn, pinned, recent, theme } from '../../lib/prefs.ts';
import { askConfig } from '../../lib/server.ts';
import { uiConfig } from '../../lib/state.ts';
import { toast } from '../../lib/toasts.ts';
import { Form } from '../../parts/form.tsx';
import {
  Button,
  Card,
  Check,
  Field,
  FormError,
  Note,
  Segments,
  Select,
  Tag,
} from '../../parts/ui.tsx';

/** Whether a policy of the operator lets in what the built-in one keeps out. */
export const isWeaker = (policy: string): boolean =>
  /unsafe-(inline|eval)|script-src[^;]*(\*|https?:)|default-src[^;]*\*/.test(policy) ||
  !/frame-ancestors/.test(policy) ||
  !/script-src|default-src/.test(policy);

export function Browser() {
  return (
    <>
      <Card title={en.thisBrowser} pad>
        <div class="row">
          <span class="grow">{en.theme}</span>
          <Segments
            label={en.theme}
            value={theme.value}
            options={[
              ['system', en.system],
              ['light', en.light],
              ['dark', en.dark],
            ]}
            onChange={(value) => {
              theme.value = value;
            }}
          />
        </div>
        <div class="row">
          <span class="grow">{common.rows}</span>
          <Segments
            label={en.density}
            value={density.value}
            options={[
              ['normal', en.normal],
              ['compact', en.compact],
            ]}
            onChange={(value) => {
              density.value = value;
            }}
          />
        </div>
        <Check
          label={en.keysOfOneLetter}
          checked={keysOn.value}
          onChange={(on) => {
            keysOn.value = on;
          }}
        />
        <div>
          <Button
            onClick={() => {
              recent.value = [];
              pinned.value = [];
              toast(en.placesAreForgotten);
            }}
          >
            {en.forgetRecentAndPinnedPlaces}
          </Button>
        </div>
      </Card>
      {can('uiSettings') && <Operator />}
      {can('uiHeaders') && <Headers />}
      {can('cors') && <Cors />}
    </>
  );
}

function Operator() {
  const current = uiConfig.value;
  const [text, setText] = useState(current.banner?.text ?? '');
  const [level, setLevel] = useState<'info' | 'warn' | 'bad'>(
    (current.banner?.level as 'info') ?? 'info',
  );
  const [idle, setIdle] = useState(String(current.idle_secs));
  const [reveal, setReveal] = useState(String(current.reveal_secs));
  const [clip, setClip] = useState(String(current.clipboard_secs));
  const [session, setSession] = useState(current.session);
  const [isPrivate, setPrivate] = useState(current.private_titles);
  const run = useAction(async () => {
    await call('POST', 'sys/config/ui/settings', {
      body: {
        banner: text ? { ...current.banner, text, level } : null,
        idle_secs: Number(idle),
        reveal_secs: Number(reveal),
        clipboard_secs: Number(clip),
        session,
        private_titles: isPrivate,
      },
    });
    await askConfig();
    toast(en.savedForEverybody);
  });
  return (
    <Card title={en.thePageForEverybody} pad>
      <Form name="settings/page" class="stack" onSubmit={() => run.run()}>
        <div class="pair">
          <Field label={en.banner} value={text} onInput={setText} placeholder={common.none} />
          <Select
            label={en.level}
            value={level}
            onChange={setLevel}
            options={[
              ['info', en.note],
              ['warn', en.warning],
              ['bad', en.alarm],
            ]}
          />
        </div>
        <div class="filters">
          <Field label={en.lockAfterIdleS} type="number" min={60} value={idle} onInput={setIdle} />
          <Field
            label={en.hideValuesAfterS}
            type="number"
            min={5}
            value={reveal}
            onInput={setReveal}
          />
          <Field
            label={en.clearTheClipboardAfterS}
            type="number"
            min={5}
            value={clip}
            onInput={setClip}
          />
          <Select
            label={en.session}
            value={session}
            onChange={setSession}
            options={[
              ['tab', en.livesInTheTab],
              ['memory', en.inMemoryAReloadSignsOut],
            ]}
          />
        </div>
        <Check label={en.titlesWithoutNames} checked={isPrivate} onChange={setPrivate} />
        <FormError error={run.error} />
        <div class="row end">
          <Button kind="primary" type="submit" busy={run.busy}>
            {common.save}
          </Button>
        </div>
      </Form>
    </Card>
  );
}

function Headers() {
  const loaded = useLoad(async () => {
    const keys =
      (await tryCall<{ keys: string[] }>('LIST', 'sys/config/ui/headers'))?.data.keys ?? [];
    return Promise.all(
      keys.map(async (name) => ({
        name,
        values:
          (
            await tryCall<{ values: string[] }>('GET', `sys/config/ui/headers/${name}`, {
              query: { multivalue: true },
            })
          )?.data.values ?? [],
      })),
    );
  }, []);
  const [name, setName] = useState('');
  const [value, setValue] = useState('');
  const run = useAction(async (method: 'POST' | 'DELETE', header: string) => {
    await call(
      method,
      `sys/config/ui/headers/${header}`,
      method === 'POST' ? { body: { values: [value] } } : {},
    );
    setName('');
    setValue('');
    loaded.reload();
  });
  return (
    <Card title={en.headersOfThePage} pad>
      <Note>{en.thePageHasStrictHeadersOf}</Note>
      {loaded.data?.map((one) => (
        <div class="row" key={one.name}>
          <b class="mono">{one.name}</b>
          <span class="mono grow">{one.values.join(', ')}</span>
          {one.name.toLowerCase() === 'content-security-policy' &&
            isWeaker(one.values.join(' ')) && (
              <Tag kind="bad" icon="warn">
                {en.weakerThanBuiltIn}
              </Tag>
            )}
          <Button
            size="sm"
            kind="ghost"
            icon="trash"
            label={en.remove(one.name)}
            onClick={() => void run.run('DELETE', one.name)}
          />
        </div>
      ))}
      <Form name="settings/header" class="pair" onSubmit={() => run.run('POST', name)}>
        <Field label={en.header} value={name} onInput={setName} mono />
        <Field label={common.value} value={value} onInput={setValue} mono />
        <Button type="submit" icon="plus" disabled={!name}>
          {en.set}
        </Button>
      </Form>
      <FormError error={run.error} />
    </Card>
  );
}

function Cors() {
  const loaded = useLoad(
    async () => (await call<Record<string, any>>('GET', 'sys/config/cors')).data,
    [],
  );
  const [origins, setOrigins] = useState('');
  const run = useAction(async (on: boolean) => {
    await call(
      on ? 'POST' : 'DELETE',
      'sys/config/cors',
      on
        ? {
            body: {
              allowed_origins: origins
                .split(',')
                .map((one) => one.trim())
                .filter(Boolean),
            },
          }
        : {},
    );
    loaded.reload();
  });
  return (
    <Card title={en.pagesOfOtherOrigins} pad>
      <p class="soft">
        {loaded.data?.['enabled'] ? (
          <>
            {en.mayAsk} <span class="mono">{String(loaded.data['allowed_origins'])}</span>{' '}
            <Button size="sm" onClick={() => void run.run(false)}>
              {en.forbid}
            </Button>
          </>
        ) : (
          en.noneMayAskThisPageIs
        )}
      </p>
      <Form name="settings/cors" class="row" onSubmit={() => run.run(true)}>
        <div class="grow">
          <Field
            label={en.originsWithCommas}
            value={origins}
            onInput={setOrigins}
            mono
            placeholder={en.httpsToolsExample}
          />
        </div>
        <Button type="submit" class="at-end">
          {en.allow}
        </Button>
      </Form>
      <FormError error={run.error} />
    </Card>
  );
}
