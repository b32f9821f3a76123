// The pictures of docs/ui.md and the README, made only when they are asked for: `cargo x ui-test pictures`.
import { mkdirSync } from 'node:fs';
import { Watched } from '../browser.ts';
import { Server } from '../server.ts';
import type { Flow } from './index.ts';

const OUT = '../target/ui-pictures';
const SIZE = { width: 1280, height: 800 };
const NAMES = ['adyen-live', 'adyen-test', 'archive/2024', 'bank-sftp', 'batch/nightly', 'kafka-credentials', 'ledger/db', 'ledger-db', 'mailgun', 'paypal', 'postgres-primary', 'postgres-replica', 'sentry-dsn', 'stripe-webhooks'];
const POLICY = `# The team that owns the payments service.
path "secret/data/apps/payments/*" {
  capabilities = ["create", "read", "update", "patch"]
}
path "secret/metadata/apps/payments/*" {
  capabilities = ["read", "list", "update", "patch"]
}
path "secret/subkeys/apps/payments/*" {
  capabilities = ["read"]
}
path "secret/data/apps/payments/bank-sftp" {
  capabilities = ["deny"]
}
path "sys/kallisto/kv/*" {
  capabilities = ["read", "update"]
}
`;

/** A small company, on a server that has just begun. */
async function company(server: Server): Promise<void> {
  const admin = 'path "*" { capabilities = ["create", "read", "update", "patch", "delete", "list", "sudo"] }';
  for (const [name, policy] of [['payments-team', POLICY], ['platform-admin', admin], ['ci-deploy', 'path "secret/data/apps/*" { capabilities = ["read"] }'], ['auditor', 'path "sys/audit*" { capabilities = ["read", "sudo"] }']] as const) await server.must('PUT', `sys/policies/acl/${name}`, { policy });
  if (!Object.keys((await server.must('GET', 'sys/mounts'))['data'] as object).includes('secret/')) await server.must('POST', 'sys/mounts/secret', { type: 'kv', options: { version: '2' } });
  await server.must('POST', 'sys/auth/userpass', { type: 'userpass', description: 'People', config: { listing_visibility: 'unauth' } });
  for (const [name, policy] of [['grace', 'platform-admin'], ['ada', 'payments-team']] as const) await server.must('POST', `auth/userpass/users/${name}`, { password: 'correct horse battery', token_policies: [policy], token_ttl: '1h' });
  const token = async (name: string): Promise<string> => (await server.must('POST', `auth/userpass/login/${name}`, { password: 'correct horse battery' }, ''))['auth'].client_token as string;
  const [ada, grace] = [await token('ada'), await token('grace')];
  for (const name of NAMES) await server.must('POST', `secret/data/apps/payments/${name}`, { data: { USERNAME: 'svc', PASSWORD: 'not-a-real-one' } }, grace);
  for (let version = 1; version <= 14; version += 1) await server.must('POST', 'secret/data/apps/payments/stripe', { data: { ACCOUNT: 'acct_1Kx', API_KEY: `sk_live_example_${version < 13 ? 'old' : 'new'}`, PUBLISHABLE_KEY: 'pk_live_example', RETRY: { max: version > 12 ? 5 : 3, backoff_ms: 250 }, WEBHOOK_SECRET: 'whsec_9fK2-vQ0Olr1I7pTz3', ...(version < 13 ? { LEGACY_KEY: 'x' } : { CLIENT_CERT: '-----BEGIN CERTIFICATE-----\nexample\n-----END CERTIFICATE-----' }) } }, version % 2 ? ada : grace);
  const due = new Date(Date.now() + 6 * 86_400_000).toISOString().slice(0, 10);
  await server.must('POST', 'secret/metadata/apps/payments/stripe', { custom_metadata: { owner: 'team-payments', due, description: 'Live account of the shop' } });
}

export const pictures: Flow[] = [{ name: 'pictures', run: async ({ browser }) => {
  mkdirSync(OUT, { recursive: true });
  const servers = await Server.cluster();
  try {
    const server = servers[0] as Server;
    await company(server);
    const shoot = async (one: Watched, name: string, path: string, before?: () => Promise<void>): Promise<void> => {
      await one.go(path);
      await one.page.waitForTimeout(1200);
      await before?.();
      await one.page.screenshot({ path: `${OUT}/ui-${name}.png` });
    };
    for (const dark of [false, true]) {
      const ada = await Watched.open(browser, server, { dark });
      const mode = dark ? '-dark' : '';
      await ada.page.setViewportSize(SIZE);
      await ada.login('ada');
      await shoot(ada, `secret${mode}`, '/ui/s/secret/apps/payments/stripe', async () => { await ada.page.getByRole('button', { name: 'Reveal WEBHOOK_SECRET' }).click(); await ada.page.locator('.shown').first().waitFor(); });
      await shoot(ada, `history${mode}`, '/ui/s/secret/apps/payments/stripe?tab=history&a=12&b=14');
      await ada.context.close();
      const grace = await Watched.open(browser, server, { dark });
      await grace.page.setViewportSize(SIZE);
      await grace.login('grace');
      await shoot(grace, `policy${mode}`, '/ui/policies/payments-team');
      await shoot(grace, `cluster${mode}`, '/ui/cluster');
      await grace.context.close();
    }
  } finally { for (const server of servers) server.stop(); }
} }];
