// Namespaces below the one in view: make, describe, lock, unlock, end.
import * as common from '../../en/common.ts';
import * as en from '../../en/screens/settings/namespaces.ts';
import { useState } from 'preact/hooks';
import { call } from '../../lib/api.ts';
import { copySecret } from '../../lib/clipboard.ts';
import { useAction, useLoad } from '../../lib/load.ts';
import { go, href } from '../../lib/router.ts';
import { namespace } from '../../lib/state.ts';
import { visible } from '../../lib/time.ts';
import { toast } from '../../lib/toasts.ts';
import { confirm, open, Sheet } from '../../parts/dialog.tsx';
import { Form } from '../../parts/form.tsx';
import {
  Button,
  Card,
  Empty,
  Failed,
  Field,
  FormError,
  Loading,
  Note,
  Tag,
} from '../../parts/ui.tsx';

interface Info {
  path: string;
  locked?: boolean;
  custom_metadata?: Record<string, string> | null;
}
const KEY_PLACEHOLDER = 'owner=ada\nstage=production';

/** `NAME=value` a line. */
const pairs = (text: string): Record<string, string> =>
  Object.fromEntries(
    text
      .split('\n')
      .map((line) => line.trim())
      .filter(Boolean)
      .map((line) => {
        const at = line.indexOf('=');
        return at < 0 ? [line, ''] : [line.slice(0, at).trim(), line.slice(at + 1).trim()];
      }),
  );

function Describe({
  path,
  one,
  close,
}: {
  path: string;
  one: Info;
  close: (done?: boolean) => void;
}) {
  const before = one.custom_metadata ?? {};
  const [text, setText] = useState(
    Object.entries(before)
      .map(([key, value]) => `${key}=${value}`)
      .join('\n'),
  );
  const save = useAction(async () => {
    const after = pairs(text);
    // A name that is gone is taken away by null.
    const gone = Object.fromEntries(
      Object.keys(before)
        .filter((key) => !(key in after))
        .map((key) => [key, null]),
    );
    await call('PATCH', `sys/namespaces/${path}`, {
      body: { custom_metadata: { ...after, ...gone } },
    });
    close(true);
  });
  return (
    <Form name="namespaces/metadata" onSubmit={() => save.run()}>
      <Sheet
        title={en.metadataOf(path)}
        actions={
          <>
            <Button onClick={() => close()}>{common.cancel}</Button>
            <Button kind="primary" type="submit" busy={save.busy}>
              {common.save}
            </Button>
          </>
        }
      >
        <Field
          label={en.pairsOneALine}
          value={text}
          onInput={setText}
          rows={5}
          mono
          placeholder={KEY_PLACEHOLDER}
          autofocus
        />
        <FormError error={save.error} />
      </Sheet>
    </Form>
  );
}

function Unlock({ path, close }: { path: string; close: (done?: boolean) => void }) {
  const [key, setKey] = useState('');
  const run = useAction(async () => {
    await call('POST', `sys/namespaces/api-lock/unlock/${path}`, {
      body: key ? { unlock_key: key } : {},
    });
    close(true);
  });
  return (
    <Form name="namespaces/unlock" onSubmit={() => run.run()}>
      <Sheet
        title={en.unlock(path)}
        actions={
          <>
            <Button onClick={() => close()}>{common.cancel}</Button>
            <Button kind="primary" type="submit" busy={run.busy}>
              {en.unlock2}
            </Button>
          </>
        }
      >
        <Field
          label={en.unlockKey}
          value={key}
          onInput={setKey}
          mono
          masked
          autofocus
          hint={en.shownWhenItWasLockedNot}
        />
        <FormError error={run.error} />
      </Sheet>
    </Form>
  );
}

export function NamespacesSettings() {
  const loaded = useLoad(async () => {
    const { keys = [], key_info: info = {} } = (
      await call<{ keys?: string[]; key_info?: Record<string, Info> }>(
        'LIST',
        'sys/namespaces',
      ).catch((error: { status?: number }) => {
        if (error.status === 404) return { data: { keys: [] as string[], key_info: {} } };
        throw error;
      })
    ).data;
    return keys.map((key): [string, Info] => [key.replace(/\/$/, ''), info[key] ?? { path: key }]);
  }, []);
  const [name, setName] = useState('');
  const make = useAction(async () => {
    // The server takes a name that is there for a change of that namespace, and its metadata is gone.
    if (loaded.data?.some(([there]) => there === name.trim().replace(/^\/+|\/+$/g, '')))
      throw new Error(common.thereIsOneWithThisName);
    await call('POST', `sys/namespaces/${name}`, { body: {} });
    toast(en.namespaceCreated(name));
    setName('');
    loaded.reload();
  });
  const end = useAction(async (path: string) => {
    if (
      await confirm({
        title: en.deleteIt(path),
        text: en.everythingInItIsRemovedMounts,
        action: common.deleteIt,
        danger: true,
        typed: path,
      })
    ) {
      await call('DELETE', `sys/namespaces/${path}`);
      loaded.reload();
    }
  });
  const lock = useAction(async (path: string) => {
    if (
      !(await confirm({
        title: en.lock(path),
        text: en.nobodyGetsInHereAndIn,
        action: en.lock2,
        danger: true,
      }))
    )
      return;
    const { data } = await call<{ unlock_key: string }>(
      'POST',
      `sys/namespaces/api-lock/lock/${path}`,
      { body: {} },
    );
    void open<void>((close) => (
      <Sheet
        title={en.isLocked(path)}
        actions={
          <>
            <Button icon="copy" onClick={() => void copySecret(data.unlock_key, en.unlockKey)}>
              {common.copy}
            </Button>
            <Button kind="primary" onClick={() => close()}>
              {common.done}
            </Button>
          </>
        }
      >
        <Note kind="warn">{en.theUnlockKeyIsShownOnce}</Note>
        <div class="code mono">
          <code class="grow">{data.unlock_key}</code>
        </div>
      </Sheet>
    ));
    loaded.reload();
  });
  const dialog = (render: (close: (done?: boolean) => void) => preact.ComponentChildren): void =>
    void open<boolean>(render).then((done) => {
      if (done) loaded.reload();
    });
  if (loaded.error)
    return <Failed error={loaded.error} retry={loaded.reload} path="sys/namespaces" cap="list" />;
  if (!loaded.data) return <Loading />;
  return (
    <Card
      title={
        <>
          {en.namespacesIn} <span class="mono">{namespace.value || common.root}</span>
        </>
      }
    >
      <Form name="namespaces/new" class="pad row" onSubmit={() => make.run()}>
        <div class="grow">
          <Field
            label={en.newNamespace}
            value={name}
            onInput={setName}
            mono
            placeholder="team-payments"
          />
        </div>
        <Button
          type="submit"
          icon="plus"
          class="at-end"
          busy={make.busy}
          disabled={!name}
          need={{ path: 'sys/namespaces/new', cap: ['create', 'update'] }}
          onClick={() => {}}
        >
          {en.create}
        </Button>
      </Form>
      <FormError error={make.error ?? end.error ?? lock.error} />
      {loaded.data.length === 0 ? (
        <Empty icon="layers" title={en.noNamespacesHere}>
          {en.aNamespaceHasMountsPoliciesAnd}
        </Empty>
      ) : (
        <div class="scroll-x" tabIndex={0} role="region" aria-label={en.namespaces}>
          <table class="grid">
            <thead>
              <tr>
                <th>{common.name}</th>
                <th>{en.metadata}</th>
                <th>{common.state}</th>
                <th>
                  <span class="sr">{common.actions}</span>
                </th>
              </tr>
            </thead>
            <tbody>
              {loaded.data.map(([path, one]) => (
                <tr key={path}>
                  <td class="mono">
                    <b>{visible(path)}</b>
                  </td>
                  <td class="caps">
                    {Object.entries(one.custom_metadata ?? {})
                      .slice(0, 4)
                      .map(([key, value]) => (
                        <Tag key={key}>
                          {visible(key)}={visible(value)}
                        </Tag>
                      ))}
                  </td>
                  <td>
                    {one.locked ? (
                      <Tag kind="warn" icon="lock">
                        {en.locked}
                      </Tag>
                    ) : (
                      <Tag kind="ok">{en.open}</Tag>
                    )}
                  </td>
                  <td class="right">
                    <span class="cell-acts">
                      <Button
                        size="sm"
                        onClick={() =>
                          void go(
                            href('', {}, namespace.value ? `${namespace.value}/${path}` : path),
                          )
                        }
                      >
                        {en.open2}
                      </Button>
                      <Button
                        size="sm"
                        label={en.metadataOf(path)}
                        onClick={() =>
                          dialog((close) => <Describe path={path} one={one} close={close} />)
                        }
                      >
                        {en.metadata}
                      </Button>
                      {one.locked ? (
                        <Button
                          size="sm"
                          label={en.unlock(path)}
                          onClick={() => dialog((close) => <Unlock path={path} close={close} />)}
                        >
                          {en.unlock2}
                        </Button>
                      ) : (
                        <Button size="sm" icon="lock" onClick={() => void lock.run(path)}>
                          {en.lock2}
                        </Button>
                      )}
                      <Button
                        size="sm"
                        kind="ghost"
                        icon="trash"
                        label={en.deleteIt2(path)}
                        onClick={() => void end.run(path)}
                      />
                    </span>
                  </td>
                </tr>
              ))}
            </tbody>
          </table>
        </div>
      )}
    </Card>
  );
}
