// The audit log: its devices, and below them the records and the verification of one.
import * as common from '../../en/common.ts';
import * as en from '../../en/screens/audit.ts';
import { useState } from 'preact/hooks';
import { call } from '../../lib/api.ts';
import { useAction, useLoad } from '../../lib/load.ts';
import { count, visible } from '../../lib/time.ts';
import { toast } from '../../lib/toasts.ts';
import { open, Sheet, confirm } from '../../parts/dialog.tsx';
import { Form } from '../../parts/form.tsx';
import {
  Button,
  Card,
  Empty,
  Failed,
  Field,
  FormError,
  Loading,
  Page,
  Tag,
} from '../../parts/ui.tsx';
import { type AuditDevice, devices } from './devices.ts';
import { Records } from './records.tsx';
import { Verify } from './verify.tsx';

function Enable({ onDone, close }: { onDone: () => void; close: () => void }) {
  const [path, setPath] = useState('/var/log/kallisto/audit.log');
  const run = useAction(async () => {
    await call('POST', 'sys/audit/file', { body: { type: 'file', options: { file_path: path } } });
    toast(en.theAuditDeviceIsOn);
    onDone();
  });
  return (
    <Form name="audit/enable" onSubmit={() => run.run()}>
      <Sheet
        title={en.aNewAuditDevice}
        actions={
          <>
            <Button onClick={close}>{common.cancel}</Button>
            <Button
              kind="primary"
              type="submit"
              busy={run.busy}
              need={{ path: 'sys/audit/file', cap: ['sudo'] }}
              onClick={() => {}}
            >
              {en.enableAFileDevice}
            </Button>
          </>
        }
      >
        <Field label={en.fileOnTheServer} value={path} onInput={setPath} mono required />
        <FormError error={run.error} />
      </Sheet>
    </Form>
  );
}

export function Audit() {
  const loaded = useLoad(devices, []);
  const [name, setName] = useState('');
  if (loaded.error)
    return <Failed error={loaded.error} retry={loaded.reload} path="sys/audit" cap="read" />;
  const list = loaded.data;
  const device = list?.find((one) => one.name === name) ?? list?.find((one) => one.type === 'file');
  const enable = (): void =>
    void open<void>((close) => (
      <Enable
        close={() => close()}
        onDone={() => {
          close();
          loaded.reload();
        }}
      />
    ));
  const disable = async (one: AuditDevice): Promise<void> => {
    if (
      await confirm({
        title: en.disable(one.name),
        text: en.requestsAreThenRecordedOnlyBy,
        action: common.disable,
        danger: true,
        typed: one.name,
      })
    ) {
      await call('DELETE', `sys/audit/${one.name}`).then(loaded.reload, (error: Error) =>
        toast(error.message),
      );
    }
  };
  return (
    <Page
      title={en.audit}
      sub={en.everyRequestAndItsAnswerWith}
      actions={
        <Button icon="plus" need={{ path: 'sys/audit/file', cap: 'sudo' }} onClick={enable}>
          {en.enableADevice}
        </Button>
      }
    >
      {!list ? (
        <Loading />
      ) : list.length === 0 ? (
        <Card>
          <Empty
            icon="audit"
            title={en.noAuditDevice}
            action={
              <Button kind="primary" icon="plus" onClick={enable}>
                {en.enableAFileDevice}
              </Button>
            }
            command="kallisto audit enable file file_path=/var/log/kallisto/audit.log"
          >
            {en.nobodyCanSayLaterWhoRead}
          </Empty>
        </Card>
      ) : (
        <>
          <Card title={en.devices}>
            <div class="scroll-x" tabIndex={0} role="region" aria-label={en.devices}>
              <table class="grid">
                <thead>
                  <tr>
                    <th>{en.device}</th>
                    <th>{common.kind}</th>
                    <th>{en.file}</th>
                    <th>{en.records}</th>
                    <th>{common.state}</th>
                    <th>
                      <span class="sr">{common.actions}</span>
                    </th>
                  </tr>
                </thead>
                <tbody>
                  {list.map((one) => (
                    <tr key={one.name}>
                      <td>
                        <b>{one.name}</b>
                      </td>
                      <td>{one.type}</td>
                      <td class="mono">{visible(one.file)}</td>
                      <td class="num">{one.head ? count(one.head.seq) : '–'}</td>
                      <td>
                        {one.head ? (
                          <>
                            <Tag kind={one.head.health === 'working' ? 'ok' : 'bad'}>
                              {one.head.health}
                            </Tag>{' '}
                            <Tag
                              kind={
                                one.head.chain === 'sound' || one.head.chain === 'new'
                                  ? 'ok'
                                  : 'warn'
                              }
                            >
                              {en.chain(one.head.chain)}
                            </Tag>
                          </>
                        ) : (
                          '–'
                        )}
                      </td>
                      <td class="right">
                        <span class="cell-acts">
                          {device?.name !== one.name && one.type === 'file' && (
                            <Button size="sm" onClick={() => setName(one.name)}>
                              {en.look}
                            </Button>
                          )}
                          <Button
                            size="sm"
                            kind="ghost"
                            icon="trash"
                            label={en.disable2(one.name)}
                            need={{ path: `sys/audit/${one.name}`, cap: 'sudo' }}
                            onClick={() => void disable(one)}
                          />
                        </span>
                      </td>
                    </tr>
                  ))}
                </tbody>
              </table>
            </div>
          </Card>
          <Verify device={device} />
          {device && <Records device={device} />}
        </>
      )}
    </Page>
  );
}
