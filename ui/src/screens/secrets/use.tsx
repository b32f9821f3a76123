// How to use this secret from elsewhere: command line, curl, Kubernetes, Terraform and five languages, with its path filled in and never its value.
import * as common from '../../en/common.ts';
import * as en from '../../en/screens/secrets/use.ts';
import { useState } from 'preact/hooks';
import { encodePath } from '../../lib/api.ts';
import { quoted as q } from '../../lib/shell.ts';
import { namespace } from '../../lib/state.ts';
import type { Place } from '../../lib/place.ts';
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
  const field = isTwo ? `.data.data[${JSON.stringify(key)}]` : `.data[${JSON.stringify(key)}]`;
  switch (way) {
    case 'cli':
      return `kallisto kv get${flag} -mount=${q(mount)} -field=${q(key)} ${q(place.path)}`;
    case 'curl':
      return `curl -s -H "X-Vault-Token: $VAULT_TOKEN"${ns ? ` -H "X-Vault-Namespace: ${ns}"` : ''} \\\n  ${q(address)} | jq -r ${q(field)}`;
    case 'env':
      return `export ${key.toUpperCase().replace(/\W/g, '_')}="$(kallisto kv get${flag} -mount=${q(mount)} -field=${q(key)} ${q(place.path)})"`;
    case 'k8s':
      return `apiVersion: external-secrets.io/v1\nkind: ExternalSecret\nmetadata:\n  name: ${place.path.split('/').at(-1)}\nspec:\n  secretStoreRef: { name: kallisto, kind: SecretStore }\n  data:\n    - secretKey: ${key}\n      remoteRef: { key: ${place.path}, property: ${key} }`;
    case 'terraform':
      return isTwo
        ? `ephemeral "vault_kv_secret_v2" "this" {\n  mount = "${mount}"\n  name  = "${place.path}"\n}\n# ephemeral.vault_kv_secret_v2.this.data["${key}"]`
        : `data "vault_kv_secret" "this" {\n  path = "${mount}/${place.path}"\n}\n# data.vault_kv_secret.this.data["${key}"]`;
    case 'python':
      return isTwo
        ? `import hvac\nclient = hvac.Client(url="${location.origin}"${ns ? `, namespace="${ns}"` : ''})\nsecret = client.secrets.kv.v2.read_secret_version(\n    mount_point="${mount}", path="${place.path}", raise_on_deleted_version=True)\nvalue = secret["data"]["data"]["${key}"]`
        : `import hvac\nclient = hvac.Client(url="${location.origin}"${ns ? `, namespace="${ns}"` : ''})\nvalue = client.secrets.kv.v1.read_secret(mount_point="${mount}", path="${place.path}")["data"]["${key}"]`;
    case 'go':
      return `secret, err := client.KVv${place.mount.version}("${mount}").Get(ctx, "${place.path}")\n// client: github.com/hashicorp/vault/api\nvalue := secret.Data["${key}"].(string)`;
    case 'node':
      return `const answer = await fetch(${JSON.stringify(address)}, {\n  headers: { 'X-Vault-Token': process.env.VAULT_TOKEN${ns ? `, 'X-Vault-Namespace': ${JSON.stringify(ns)}` : ''} },\n});\nconst value = (await answer.json())${field};`;
    case 'java':
      return `// spring-vault\nvar secret = vault.opsForVersionedKeyValue("${mount}").get("${place.path}");\nvar value = secret.getData().get("${key}");`;
    case 'rust':
      return `// crate vaultrs\nlet secret: HashMap<String, String> = vaultrs::kv${place.mount.version}::read(&client, "${mount}", "${place.path}").await?;\nlet value = &secret["${key}"];`;
  }
}

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
