// How to use this secret from elsewhere: command line, curl, Kubernetes, Terraform and five languages, with its path filled in and never its value.
import * as common from '../../en/common.ts';
import * as en from '../../en/screens/secrets/use.ts';
import { useState } from 'preact/hooks';
import { encodePath } from '../../lib/api.ts';
import { envName } from '../../lib/formats.ts';
import { inQuotes, inTerraform, inYaml, quoted as q } from '../../lib/shell.ts';
import { namespace } from '../../lib/state.ts';
import { lastSegment, type Place } from '../../lib/place.ts';
import { Card, Code, Segments, Select } from '../../parts/ui.tsx';

type Way =
  'cli' | 'curl' | 'env' | 'k8s' | 'terraform' | 'python' | 'go' | 'node' | 'java' | 'rust';
export const WAYS: readonly (readonly [Way, string])[] = [
  ['cli', 'CLI'],
  ['curl', 'curl'],
  ['env', '.env'],
  ['k8s', 'Kubernetes'],
  ['terraform', 'Terraform'],
  ['python', 'Python'],
  ['go', 'Go'],
  ['node', 'Node.js'],
  ['java', 'Java'],
  ['rust', 'Rust'],
];
export function snippet(way: Way, place: Place, key: string): string {
  const mount = place.mount.path.replace(/\/$/, '');
  const isTwo = place.mount.version === 2;
  const api = `${mount}${isTwo ? '/data' : ''}/${place.path}`;
  const ns = namespace.peek();
  const flag = ns ? ` -namespace=${q(ns)}` : '';
  const address = `${location.origin}/v1/${encodePath(api)}`;
  const field = isTwo ? `.data.data[${inQuotes(key)}]` : `.data[${inQuotes(key)}]`;
  switch (way) {
    case 'cli':
      return `kallisto kv get${flag} -mount=${q(mount)} -field=${q(key)} ${q(place.path)}`;
    case 'curl':
      return `curl -s -H "X-Vault-Token: $VAULT_TOKEN"${ns ? ` -H ${q(`X-Vault-Namespace: ${ns}`)}` : ''} \\\n  ${q(address)} | jq -r ${q(field)}`;
    case 'env':
      return `export ${envName(key.toUpperCase())}="$(kallisto kv get${flag} -mount=${q(mount)} -field=${q(key)} ${q(place.path)})"`;
    case 'k8s':
      return `apiVersion: external-secrets.io/v1\nkind: ExternalSecret\nmetadata:\n  name: ${objectName(lastSegment(place.path))}\nspec:\n  secretStoreRef: { name: kallisto, kind: SecretStore }${ns ? ` # spec.provider.vault.namespace: ${inYaml(ns)}` : ''}\n  data:\n    - secretKey: ${inYaml(key.replace(/[^\w.-]/g, '_'))}\n      remoteRef: { key: ${inYaml(place.path)}, property: ${inYaml(key)} }`;
    case 'terraform': {
      const where = ns ? `  namespace = ${inTerraform(ns)}\n` : '';
      return isTwo
        ? `ephemeral "vault_kv_secret_v2" "this" {\n${where}  mount = ${inTerraform(mount)}\n  name  = ${inTerraform(place.path)}\n}\n# ephemeral.vault_kv_secret_v2.this.data[${inTerraform(key)}]`
        : `data "vault_kv_secret" "this" {\n${where}  path = ${inTerraform(`${mount}/${place.path}`)}\n}\n# data.vault_kv_secret.this.data[${inTerraform(key)}]`;
    }
    case 'python':
      return isTwo
        ? `import hvac\nclient = hvac.Client(url="${location.origin}"${ns ? `, namespace=${inQuotes(ns)}` : ''})\nsecret = client.secrets.kv.v2.read_secret_version(\n    mount_point=${inQuotes(mount)}, path=${inQuotes(place.path)}, raise_on_deleted_version=True)\nvalue = secret["data"]["data"][${inQuotes(key)}]`
        : `import hvac\nclient = hvac.Client(url="${location.origin}"${ns ? `, namespace=${inQuotes(ns)}` : ''})\nvalue = client.secrets.kv.v1.read_secret(mount_point=${inQuotes(mount)}, path=${inQuotes(place.path)})["data"][${inQuotes(key)}]`;
    case 'go':
      return `// client: github.com/hashicorp/vault/api\nsecret, err := client${ns ? `.WithNamespace(${inQuotes(ns)})` : ''}.KVv${place.mount.version}(${inQuotes(mount)}).Get(ctx, ${inQuotes(place.path)})\nvalue := secret.Data[${inQuotes(key)}].(string)`;
    case 'node':
      return `const answer = await fetch(${inQuotes(address)}, {\n  headers: { 'X-Vault-Token': process.env.VAULT_TOKEN${ns ? `, 'X-Vault-Namespace': ${inQuotes(ns)}` : ''} },\n});\nconst value = (await answer.json())${field};`;
    case 'java': {
      const operations = isTwo
        ? `opsForVersionedKeyValue(${inQuotes(mount)})`
        : `opsForKeyValue(${inQuotes(mount)}, KeyValueBackend.KV_1)`;
      return `// spring-vault${ns ? `; spring.cloud.vault.namespace=${ns}` : ''}\nvar secret = vault.${operations}.get(${inQuotes(place.path)});\nvar value = secret.getData().get(${inQuotes(key)});`;
    }
    case 'rust':
      return `// crate vaultrs${ns ? `; VaultClientSettingsBuilder: .namespace(Some(${inQuotes(ns)}.into()))` : ''}\nlet secret: HashMap<String, String> = vaultrs::kv${place.mount.version}::read(&client, ${inQuotes(mount)}, ${inQuotes(place.path)}).await?;\nlet value = &secret[${inQuotes(key)}];`;
  }
}

/** A name that Kubernetes takes for an object. */
const objectName = (name: string): string =>
  name
    .toLowerCase()
    .replace(/[^a-z0-9.-]+/g, '-')
    .replace(/^[.-]+|[.-]+$/g, '') || 'secret';

/** The small form beside the values. */
export function UseCard({ place, keys }: { place: Place; keys: string[] }) {
  const [way, setWay] = useState<Way>('cli');
  return (
    <Card
      title={common.useIt}
      actions={<Segments label={en.how} value={way} options={WAYS.slice(0, 4)} onChange={setWay} />}
      pad
    >
      <Code text={snippet(way, place, keys[0] ?? 'KEY')} />
      <p class="dim">{en.inTheWebInterfaceTheCommand}</p>
    </Card>
  );
}

export function UseIt({ place, keys }: { place: Place; keys: string[] }) {
  const [key, setKey] = useState(keys[0] ?? 'KEY');
  return (
    <>
      <Card title={common.useIt} pad>
        {keys.length > 1 && (
          <Select
            label={common.key}
            value={key}
            options={keys.map((one) => [one, one] as const)}
            onChange={setKey}
          />
        )}
        <p class="soft">
          {en.thePathIsFilledInValues} <span class="mono">VAULT_ADDR={location.origin}</span>{' '}
          {en.andATokenOfYourOwn}
        </p>
      </Card>
      {WAYS.map(([way, label]) => (
        <Card title={label} pad key={way}>
          <Code text={snippet(way, place, key)} label={label} />
        </Card>
      ))}
    </>
  );
}
