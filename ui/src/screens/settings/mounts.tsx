// Mounts: enable, tune, move, upgrade to version 2, disable with what is lost.
import * as common from '../../en/common.ts';
import * as en from '../../en/screens/settings/mounts.ts';
import { useState } from 'preact/hooks';
import { call } from '../../lib/api.ts';
import { useAction, useLoad } from '../../lib/load.ts';
import { href } from '../../lib/router.ts';
import { forgetMounts } from '../../lib/place.ts';
import { visible } from '../../lib/time.ts';
import { toast } from '../../lib/toasts.ts';
import { confirm, open, Sheet } from '../../parts/dialog.tsx';
import { Form } from '../../parts/form.tsx';
import { Button, Card, Failed, Field, FormError, Loading, Select, Tag } from '../../parts/ui.tsx';

type Info = Record<string, Record<string, any>>;
/** Every engine that can be mounted. */
const KINDS = [
  ['kv', en.keyValue],
  ['transit', common.transit],
  ['pki', en.pki],
  ['ssh', en.ssh],
  ['database', en.database],
  ['rabbitmq', en.rabbitmq],
  ['ldap', en.ldap],
  ['kubernetes', en.kubernetes],
  ['totp', en.totp],
] as const;
/** Engines with a screen of their own; the others have the console. */
const screenOf = (type: string, path: string): string =>
  type === 'transit'
    ? href(`transit/${path}`)
    : type === 'kv' || type === 'generic'
      ? href(`s/${path}`)
      : href('tools/api', { at: path });
function Enable({ close }: { close: () => void }) {
  const [type, setType] = useState<(typeof KINDS)[number][0]>('kv');
  const [path, setPath] = useState('');
  const [version, setVersion] = useState<'1' | '2'>('2');
  const [description, setDescription] = useState('');
  const run = useAction(async () => {
    await call('POST', `sys/mounts/${path || type}`, {
      body: { type, description, ...(type === 'kv' ? { options: { version } } : {}) },
    });
    toast(en.mounted);
    close();
  });
  return (
    <Form name="mounts/enable" onSubmit={() => run.run()}>
      <Sheet
        title={en.newMount}
        actions={
          <>
            <Button onClick={close}>{common.cancel}</Button>
            <Button kind="primary" type="submit" busy={run.busy}>
              {common.mount}
            </Button>
          </>
        }
      >
        <Select label={en.engine} value={type} onChange={setType} options={KINDS} />
        {type === 'kv' && (
          <Select
            label={common.version}
            value={version}
            onChange={setVersion}
            options={[
              ['2', en.n2WithHistory],
              ['1', en.n1Without],
            ]}
          />
        )}
        <Field
          label={common.path}
          value={path}
          onInput={setPath}
          mono
          placeholder={type}
          hint={en.mayHaveSlashes}
        />
        <Field label={common.description} value={description} onInput={setDescription} />
        <FormError error={run.error} />
      </Sheet>
    </Form>
  );
}
function Tune({ path, one, close }: { path: string; one: Record<string, any>; close: () => void }) {
  const [to, setTo] = useState(path.replace(/\/$/, ''));
  const [description, setDescription] = useState(one['description'] as string);
  const isOld = one['type'] === 'kv' && one['options']?.version !== '2';
  const run = useAction(async () => {
    await call('POST', `sys/mounts/${path}tune`, { body: { description } });
    if (`${to}/` !== path) await call('POST', 'sys/remount', { body: { from: path, to } });
    toast(common.changed);
    close();
  });
  const upgrade = useAction(async () => {
    await call('POST', `sys/mounts/${path}tune`, { body: { options: { version: '2' } } });
    toast(en.version2FromNowOn);
    close();
  });
  return (
    <Form name="mounts/tune" onSubmit={() => run.run()}>
      <Sheet
        title={path}
        actions={
          <>
            <Button onClick={close}>{common.cancel}</Button>
            <Button kind="primary" type="submit" busy={run.busy}>
              {common.save}
            </Button>
          </>
        }
      >
        <Field label={common.description} value={description} onInput={setDescription} />
        <Field
          label={common.path}
          value={to}
          onInput={setTo}
          mono
          hint={en.anotherPathMovesTheMountPolicies}
        />
        {isOld && (
          <Button busy={upgrade.busy} onClick={() => void upgrade.run()}>
            {en.upgradeToVersion2}
          </Button>
        )}
        <FormError error={run.error ?? upgrade.error} />
      </Sheet>
    </Form>
  );
}
export function MountsSettings() {
  const loaded = useLoad(async () => (await call<Info>('GET', 'sys/mounts')).data, []);
  const done = (): void => {
    forgetMounts();
    loaded.reload();
  };
  const disable = useAction(async (path: string) => {
    if (
      await confirm({
        title: en.disable(path),
        text: en.allThatItHoldsIsRemoved,
        action: common.disable,
        danger: true,
        typed: path,
      })
    ) {
      await call('DELETE', `sys/mounts/${path.replace(/\/$/, '')}`);
      done();
    }
  });
  if (loaded.error) return <Failed error={loaded.error} retry={loaded.reload} path="sys/mounts" />;
  if (!loaded.data) return <Loading />;
  const system = ['system', 'identity', 'cubbyhole', 'ns_system', 'ns_identity', 'ns_cubbyhole'];
  return (
    <Card
      title={en.mounts}
      actions={
        <Button
          icon="plus"
          kind="primary"
          need={{ path: 'sys/mounts/new', cap: ['create', 'update'] }}
          onClick={() =>
            void open<void>((close) => (
              <Enable
                close={() => {
                  close();
                  done();
                }}
              />
            ))
          }
        >
          {en.newMount}
        </Button>
      }
    >
      <FormError error={disable.error} />
      <div class="scroll-x" tabIndex={0} role="region" aria-label={en.mounts}>
        <table class="grid">
          <thead>
            <tr>
              <th>{common.path}</th>
              <th>{en.engine}</th>
              <th>{common.description}</th>
              <th>
                <span class="sr">{common.actions}</span>
              </th>
            </tr>
          </thead>
          <tbody>
            {Object.entries(loaded.data)
              .filter(([path]) => path.endsWith('/'))
              .map(([path, one]) => (
                <tr key={path}>
                  <td class="mono">
                    <b>{visible(path)}</b>
                  </td>
                  <td>
                    <Tag>
                      {one['type']}
                      {one['options']?.version ? ` ${one['options'].version}` : ''}
                    </Tag>
                  </td>
                  <td>{visible(one['description'] ?? '')}</td>
                  <td class="right">
                    {!system.includes(one['type']) && (
                      <span class="cell-acts">
                        <a
                          class="btn sm"
                          href={screenOf(one['type'] as string, path)}
                          aria-label={en.openMount(path)}
                        >
                          {en.open}
                        </a>
                        <Button
                          size="sm"
                          label={en.tuneMount(path)}
                          onClick={() =>
                            void open<void>((close) => (
                              <Tune
                                path={path}
                                one={one}
                                close={() => {
                                  close();
                                  done();
                                }}
                              />
                            ))
                          }
                        >
                          {en.tune}
                        </Button>
                        <Button
                          size="sm"
                          kind="ghost"
                          icon="trash"
                          label={en.disable2(path)}
                          need={{ path: `sys/mounts/${path.replace(/\/$/, '')}`, cap: 'delete' }}
                          onClick={() => void disable.run(path)}
                        />
                      </span>
                    )}
                  </td>
                </tr>
              ))}
          </tbody>
        </table>
      </div>
    </Card>
  );
}
