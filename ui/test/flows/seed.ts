// What the flows find on the server in memory: people with different rights, secrets with history, a namespace, a large folder.
import { join } from 'node:path';
import { PLANTED } from '../browser.ts';
import type { Server } from '../server.ts';

export const MANY = 100_000;
const AT_ONCE = 2000;

export async function seed(server: Server): Promise<void> {
  const policies: Record<string, string> = {
    admin: 'path "*" { capabilities = ["create", "read", "update", "patch", "delete", "list", "sudo"] }',
    dev: 'path "secret/data/apps/payments/*" {\n  capabilities = ["create", "read", "update", "patch"]\n}\npath "secret/metadata/*" {\n  capabilities = ["list", "read", "update", "patch"]\n}\npath "secret/subkeys/*" {\n  capabilities = ["read"]\n}\npath "sys/kallisto/kv/*" {\n  capabilities = ["read", "update"]\n}\n',
    reader: 'path "secret/data/apps/payments/stripe" { capabilities = ["read"] }\npath "secret/subkeys/apps/payments/stripe" { capabilities = ["read"] }',
    writer: 'path "secret/data/apps/payments/*" { capabilities = ["patch", "update"] }',
  };
  for (const [name, policy] of Object.entries(policies)) await server.must('PUT', `sys/policies/acl/${name}`, { policy });
  await server.must('POST', 'sys/auth/userpass', { type: 'userpass', description: 'People', config: { listing_visibility: 'unauth' } });
  for (const [name, policy] of [['ops', 'admin'], ['ada', 'dev'], ['rita', 'reader'], ['walt', 'writer'], ['nora', 'default']] as const) await server.must('POST', `auth/userpass/users/${name}`, { password: 'correct horse battery', token_policies: [policy], token_ttl: '1h' });
  await server.must('PUT', 'sys/config/auditing/request-headers/X-Kallisto-Intent', { hmac: false });
  await server.must('POST', 'sys/audit/file', { type: 'file', options: { file_path: join(server.folder, 'audit.log') } });
  for (const retry of [1, 2, 3]) await server.must('POST', 'secret/data/apps/payments/stripe', { data: { API_KEY: PLANTED[0], WEBHOOK_SECRET: `${PLANTED[1]}_${retry}`, RETRY: { max: retry, backoff_ms: 250 }, ...(retry === 3 ? { NEW_KEY: 'x' } : { LEGACY: 'y' }) } });
  for (const name of ['mailgun', 'paypal', 'ledger/db', 'sentry-dsn']) await server.must('POST', `secret/data/apps/payments/${name}`, { data: { PASSWORD: PLANTED[1] } });
  await server.must('POST', 'sys/mounts/kv/int', { type: 'kv', options: { version: '2' } });
  await server.must('POST', 'sys/mounts/old', { type: 'kv', options: { version: '1' } });
  await server.must('POST', 'sys/mounts/transit', { type: 'transit' });
  await server.must('POST', 'old/plain', { user: 'u', pass: PLANTED[1] });
  await server.must('POST', 'sys/namespaces/team', {});
}

/** A folder of 100,000 names, by atomic writes of 2,000. */
export async function seedMany(server: Server): Promise<void> {
  for (let from = 0; from < MANY; from += AT_ONCE) {
    await server.must('POST', 'sys/kallisto/kv/write', { writes: Array.from({ length: AT_ONCE }, (_, i) => ({ path: `secret/data/many/svc-${String(from + i).padStart(6, '0')}`, data: { k: 'v' } })) });
  }
}
