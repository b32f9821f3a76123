// The requests of the screen in view, as commands and configuration for elsewhere: what is done here can be done without the page.
import * as common from '../en/common.ts';
import * as en from '../en/parts/copy-as.ts';
import { useState } from 'preact/hooks';
import { asked, type Asked } from '../lib/asked.ts';
import { encodePath } from '../lib/api.ts';
import { inTerraform, quoted } from '../lib/shell.ts';
import { open, Sheet } from './dialog.tsx';
import { Button, Code, Segments } from './ui.tsx';

type Form = 'cli' | 'curl' | 'terraform';

function cli({ method, path, query, fields, ns }: Asked): string {
  const verb =
    { GET: 'read', LIST: 'list', DELETE: 'delete' }[method] ??
    (method === 'PATCH' ? 'patch' : 'write');
  const flags = ns ? ` -namespace=${quoted(ns)}` : '';
  const pairs = [
    ...query.map(([key, value]) => quoted(`${key}=${value}`)),
    ...fields.map((field) => `${field}=…`),
  ];
  return `kallisto ${verb}${flags}${verb === 'write' && pairs.length === 0 ? ' -f' : ''} ${quoted(path)}${pairs.map((pair) => ` ${pair}`).join('')}`;
}

function curl({ method, path, query, fields, ns }: Asked): string {
  const address = `${location.origin}/v1/${encodePath(path)}${query.length ? `?${new URLSearchParams(query).toString()}` : ''}`;
  return `curl -s${method === 'GET' ? '' : ` -X ${method}`} -H "X-Vault-Token: $VAULT_TOKEN"${ns ? ` -H ${quoted(`X-Vault-Namespace: ${ns}`)}` : ''}${fields.length ? ` \\\n  -d '{${fields.map((field) => `"${field}": …`).join(', ')}}'` : ''} \\\n  ${quoted(address)}`;
}

function terraform({ method, path, fields, ns }: Asked): string | undefined {
  const where = ns ? `  namespace = ${inTerraform(ns)}\n` : '';
  if (method === 'GET')
    return `data "vault_generic_secret" "this" {\n${where}  path = ${inTerraform(path)}\n}`;
  if (method === 'LIST' || method === 'DELETE') return undefined;
  return `resource "vault_generic_endpoint" "this" {\n${where}  path      = ${inTerraform(path)}\n  data_json = jsonencode({ ${fields.map((field) => `${inTerraform(field)} = "…"`).join(', ')} })\n}`;
}

const FORMS: Record<Form, (one: Asked) => string | undefined> = { cli, curl, terraform };

function CopyAs({ close }: { close: () => void }) {
  const [form, setForm] = useState<Form>('cli');
  const texts = asked()
    .map((one) => FORMS[form](one))
    .filter((text) => text !== undefined);
  return (
    <Sheet
      title={en.requestsOfThisScreen}
      actions={
        <Button kind="primary" onClick={close}>
          {common.close}
        </Button>
      }
    >
      <div class="row">
        <Segments
          label={common.form}
          value={form}
          options={[
            ['cli', en.cli],
            ['curl', en.curl],
            ['terraform', 'Terraform'],
          ]}
          onChange={setForm}
        />
      </div>
      {texts.length === 0 ? (
        <p class="soft">{en.thisScreenHasMadeNoRequest}</p>
      ) : (
        texts.map((text) => <Code key={text} text={text} />)
      )}
      <p class="dim">{en.tokensAndValuesAreLeftOut}</p>
    </Sheet>
  );
}
export const openCopyAs = (): void => void open<void>((close) => <CopyAs close={() => close()} />);
