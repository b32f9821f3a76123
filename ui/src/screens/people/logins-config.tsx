// What a login method has to know before anybody logs in by it: whom it asks, and as whom. Everything else is in the console.
import * as common from '../../en/common.ts';
import * as en from '../../en/screens/logins-config.ts';
import { useState } from 'preact/hooks';
import { call } from '../../lib/api.ts';
import { useAction } from '../../lib/load.ts';
import { href } from '../../lib/router.ts';
import { toast } from '../../lib/toasts.ts';
import { Sheet } from '../../parts/dialog.tsx';
import { Form } from '../../parts/form.tsx';
import { Button, Field, FormError } from '../../parts/ui.tsx';

interface Setting {
  name: string;
  label: string;
  masked?: boolean;
  rows?: number;
  required?: boolean;
  placeholder?: string;
  hint?: string;
}
const PROVIDER: Setting[] = [
  {
    name: 'oidc_discovery_url',
    label: en.addressOfTheProvider,
    placeholder: 'https://id.example.com',
    hint: en.withoutWellKnown,
  },
  { name: 'oidc_client_id', label: en.clientId },
  { name: 'oidc_client_secret', label: en.clientSecret, masked: true },
  { name: 'default_role', label: en.roleWhenNobodySays },
];

/** Settings of each kind that has some, as the server names them. */
export const CONFIG: Record<string, Setting[]> = {
  github: [
    { name: 'organization', label: en.organization, required: true },
    {
      name: 'base_url',
      label: en.enterpriseServer,
      placeholder: 'https://github.example.com/api/v3',
    },
  ],
  okta: [
    { name: 'org_name', label: en.organization, required: true, placeholder: 'acme' },
    { name: 'api_token', label: en.apiToken, masked: true, hint: en.withoutItGroupsAreNot },
    { name: 'base_url', label: en.addressOfTheServer, placeholder: 'okta.com' },
  ],
  ldap: [
    {
      name: 'url',
      label: en.addressOfTheDirectory,
      required: true,
      placeholder: 'ldaps://ldap.example.com',
    },
    { name: 'binddn', label: en.nameToSearchAs, placeholder: 'cn=reader,dc=example,dc=com' },
    { name: 'bindpass', label: en.itsPassword, masked: true },
    { name: 'userdn', label: en.wherePeopleAre, placeholder: 'ou=people,dc=example,dc=com' },
    { name: 'userattr', label: en.attributeOfTheName, placeholder: 'uid' },
    { name: 'groupdn', label: en.whereGroupsAre, placeholder: 'ou=groups,dc=example,dc=com' },
    { name: 'certificate', label: en.certificateAuthorityPem, rows: 3 },
  ],
  kubernetes: [
    {
      name: 'kubernetes_host',
      label: en.addressOfTheCluster,
      required: true,
      placeholder: 'https://10.0.0.1:6443',
    },
    { name: 'kubernetes_ca_cert', label: en.certificateAuthorityPem, rows: 3 },
    { name: 'token_reviewer_jwt', label: en.tokenThatReviews, masked: true },
  ],
  oidc: PROVIDER,
  jwt: [
    PROVIDER[0] as Setting,
    { name: 'jwks_url', label: en.addressOfTheKeys, placeholder: 'https://id.example.com/keys' },
    { name: 'bound_issuer', label: en.issuer },
    { name: 'default_role', label: en.roleWhenNobodySays },
  ],
};

/** Methods whose configuration a write replaces as a whole, as with Vault: what is not sent is gone. */
const REPLACED = ['jwt', 'oidc', 'kubernetes'];
/** What the server tells of such a configuration beside its settings. */
const TOLD = ['status', 'token_reviewer_jwt_set'];
/** Whether there is a secret that the next write has to have again. */
const isHeld = (name: string, now: Record<string, any>): boolean =>
  (name === 'oidc_client_secret' && Boolean(now['oidc_client_id'])) ||
  (name === 'token_reviewer_jwt' && now['token_reviewer_jwt_set'] === true);
const isEmpty = (value: unknown): boolean =>
  value === null || (typeof value === 'object' ? Object.keys(value).length === 0 : value === '');

export function Configure({
  mount,
  type,
  now,
  close,
}: {
  mount: string;
  type: string;
  now: Record<string, any>;
  close: (isDone: boolean) => void;
}) {
  const settings = CONFIG[type] ?? [];
  const [values, setValues] = useState<Record<string, string>>({});
  const valueOf = ({ name }: Setting): string =>
    values[name] ?? (typeof now[name] === 'string' ? (now[name] as string) : '');
  const run = useAction(async () => {
    const kept = REPLACED.includes(type)
      ? Object.entries(now).filter(([name, value]) => !TOLD.includes(name) && !isEmpty(value))
      : [];
    const set = settings
      .map((one): [string, string] => [one.name, valueOf(one)])
      .filter(([name, value]) => value !== '' || values[name] !== undefined);
    await call('POST', `auth/${mount}/config`, { body: Object.fromEntries([...kept, ...set]) });
    toast(en.itIsSetUp(mount));
    close(true);
  });
  return (
    <Form name="logins/config" onSubmit={() => run.run()}>
      <Sheet
        title={en.setUpMount(mount)}
        actions={
          <>
            <a class="link" href={href('tools/api', { at: `auth/${mount}/` })}>
              {en.allSettings}
            </a>
            <span class="grow" />
            <Button onClick={() => close(false)}>{common.cancel}</Button>
            <Button kind="primary" type="submit" busy={run.busy}>
              {common.save}
            </Button>
          </>
        }
      >
        {settings.map((one, i) => (
          <Field
            key={one.name}
            label={one.label}
            value={valueOf(one)}
            onInput={(text) => setValues({ ...values, [one.name]: text })}
            mono
            autofocus={i === 0}
            {...(one.rows ? { rows: one.rows } : {})}
            {...(one.masked ? { masked: true } : {})}
            {...(one.required || isHeld(one.name, now) ? { required: true } : {})}
            {...(one.placeholder ? { placeholder: one.placeholder } : {})}
            hint={
              one.hint ??
              (isHeld(one.name, now) ? en.neededAgain : one.masked ? en.neverShown : undefined)
            }
          />
        ))}
        <FormError error={run.error} />
      </Sheet>
    </Form>
  );
}
