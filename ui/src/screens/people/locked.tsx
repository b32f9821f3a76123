// Who is locked out after wrong passwords.
import * as common from '../../en/common.ts';
import * as en from '../../en/screens/people.ts';
import { call } from '../../lib/api.ts';
import { useAction, useLoad } from '../../lib/load.ts';
import { visible } from '../../lib/time.ts';
import { toast } from '../../lib/toasts.ts';
import { Button, Card, Empty, Failed, FormError, Loading, Page } from '../../parts/ui.tsx';

export function Locked() {
  const loaded = useLoad(
    async () => (await call<Record<string, any>>('GET', 'sys/locked-users')).data,
    [],
  );
  // The answer has the namespaces below too; each unlocks its own.
  const unlock = useAction(async (ns: string, accessor: string, name: string) => {
    await call('POST', `sys/locked-users/${accessor}/unlock/${name}`, {
      ns: ns.replace(/\/$/, ''),
      body: {},
    });
    toast(en.mayTryAgain(name));
    loaded.reload();
  });
  if (loaded.error)
    return <Failed error={loaded.error} retry={loaded.reload} path="sys/locked-users" cap="sudo" />;
  if (!loaded.data) return <Loading />;
  const rows = ((loaded.data['by_namespace'] ?? []) as Record<string, any>[]).flatMap((ns) =>
    ((ns['mount_accessors'] ?? []) as Record<string, any>[]).flatMap((mount) =>
      ((mount['alias_identifiers'] ?? []) as string[]).map((name) => ({
        ns: ns['namespace_path'] as string,
        accessor: mount['mount_accessor'] as string,
        name,
      })),
    ),
  );
  return (
    <Page title={en.lockedOut} sub={en.whoeverGaveTooManyWrongPasswords}>
      <FormError error={unlock.error} />
      {rows.length === 0 ? (
        <Card>
          <Empty
            icon="lock"
            title={en.nobodyIsLockedOut}
            action={
              <Button icon="undo" onClick={loaded.reload}>
                {en.lookAgain}
              </Button>
            }
          />
        </Card>
      ) : (
        <Card>
          <table class="grid">
            <thead>
              <tr>
                <th>{common.name}</th>
                <th>{common.mount}</th>
                <th>{common.namespace}</th>
                <th>
                  <span class="sr">{common.actions}</span>
                </th>
              </tr>
            </thead>
            <tbody>
              {rows.map((row) => (
                <tr key={row.accessor + row.name}>
                  <td>
                    <b>{visible(row.name)}</b>
                  </td>
                  <td class="mono">{row.accessor}</td>
                  <td class="mono">{row.ns || common.root}</td>
                  <td class="right">
                    <Button
                      size="sm"
                      busy={unlock.busy}
                      onClick={() => void unlock.run(row.ns, row.accessor, row.name)}
                    >
                      {en.unlock}
                    </Button>
                  </td>
                </tr>
              ))}
            </tbody>
          </table>
        </Card>
      )}
    </Page>
  );
}
