// Every form is sent in a browser: a refusal keeps what was typed, a double click sends once, the way back closes a dialog, and neither the end of the session
// nor a seal under it loses it. What was sent is read back over the API. The last flow holds the list of forms against the sources.
import { createServer } from 'node:http';
import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import type { Locator, Page } from 'playwright-core';
import { SENT, Watched } from '../browser.ts';
import { equal, ok, until } from '../assert.ts';
import { FORMS } from '../forms.ts';
import { Server } from '../server.ts';
import type { Flow } from './index.ts';

const PASSWORD = 'correct horse battery';
const ADMIN = 'path "*" { capabilities = ["create", "read", "update", "patch", "delete", "list", "sudo"] }';
type Fill = (form: Locator, page: Page) => Promise<void>;

/** A form that writes: where it is, how it is filled so that the server refuses it and so that it does not, and what is there afterwards. */
interface Case {
  name: string;
  at: string;
  /** The button that opens it, where it is a dialog. */
  opener?: string | RegExp;
  submit: string;
  bad?: Fill;
  good: Fill;
  /** The path of its request: a double click asks it once. */
  asks: RegExp;
  there: (server: Server) => Promise<boolean>;
  /** Its request is a GET. */
  reads?: true;
  /** Puts it back as it was, so that it can be sent again under a seal and after a session. */
  undo?: (server: Server) => Promise<unknown>;
}

const fill = (label: string, text: string): Fill => async (form) => form.getByLabel(new RegExp(`^${label.replace(/[.*+?^${}()|[\]\\]/g, '\\$&')}( optional)?$`)).fill(text);
const all = (...fills: Fill[]): Fill => async (form, page) => { for (const one of fills) await one(form, page); };
const select = (label: string, value: string): Fill => async (form) => { await form.getByLabel(label, { exact: true }).selectOption(value); };
const isThere = (path: string) => async (server: Server): Promise<boolean> => (await server.api('GET', path))['status'] === 200;
const remove = (path: string) => (server: Server): Promise<unknown> => server.api('DELETE', path);

/** What some forms need that is known once the server runs. */
const kept = { ciphertext: '', audit: '', github: '' };

const CASES: Case[] = [
  { name: 'mounts/enable', at: '/ui/settings/mounts', opener: 'New mount', submit: 'Mount', bad: fill('Path', 'secret'), good: all(select('Engine', 'pki'), fill('Path', 'form/pki'), fill('Description', 'made by a form')), asks: /\/sys\/mounts\/form\/pki$/, there: async (server) => (await server.must('GET', 'sys/mounts'))['data']['form/pki/']?.description === 'made by a form', undo: remove('sys/mounts/form/pki') },
  { name: 'mounts/tune', at: '/ui/settings/mounts', opener: 'Tune kept/', submit: 'Save', bad: fill('Path', 'sys/x'), good: all(fill('Description', 'kept things'), fill('Path', 'kept')), asks: /\/sys\/mounts\/kept\/tune$/, there: async (server) => (await server.must('GET', 'sys/mounts'))['data']['kept/'].description === 'kept things', undo: (server) => server.must('POST', 'sys/mounts/kept/tune', { description: '' }) },
  { name: 'quotas/set', at: '/ui/settings/quotas', submit: 'Set', bad: all(fill('New quota', 'form'), fill('Path', 'nowhere/at/all')), good: all(fill('New quota', 'form'), fill('Path', ''), fill('Requests a second', '5000')), asks: /\/sys\/quotas\/rate-limit\/form$/, there: isThere('sys/quotas/rate-limit/form'), undo: remove('sys/quotas/rate-limit/form') },
  { name: 'namespaces/new', at: '/ui/settings/namespaces', submit: 'Create', bad: fill('New namespace', 'sys'), good: fill('New namespace', 'form-team'), asks: /\/sys\/namespaces\/form-team$/, there: isThere('sys/namespaces/form-team'), undo: remove('sys/namespaces/form-team') },
  { name: 'namespaces/metadata', at: '/ui/settings/namespaces', opener: /^Metadata of team/, submit: 'Save', bad: fill('Pairs, one a line', `${'x'.repeat(200)}=y`), good: fill('Pairs, one a line', 'owner=ada\nstage=test'), asks: /\/sys\/namespaces\/team\/?$/, there: async (server) => (await server.must('GET', 'sys/namespaces/team'))['data'].custom_metadata?.stage === 'test', undo: (server) => server.api('PATCH', 'sys/namespaces/team', { custom_metadata: { owner: null, stage: null } }) },
  { name: 'settings/page', at: '/ui/settings/browser', submit: 'Save', bad: fill('Lock after idle (s)', '99999999'), good: all(fill('Banner', 'a form said so'), fill('Lock after idle (s)', '900')), asks: /\/sys\/config\/ui\/settings$/, there: async (server) => (await server.must('GET', 'sys/internal/ui/config'))['data'].banner?.text === 'a form said so', undo: (server) => server.must('POST', 'sys/config/ui/settings', { banner: null }) },
  { name: 'settings/header', at: '/ui/settings/browser', submit: 'Set', bad: all(fill('Header', 'X-Vault-Form'), fill('Value', 'x')), good: all(fill('Header', 'X-Form'), fill('Value', 'sent')), asks: /\/sys\/config\/ui\/headers\/X-Form$/i, there: isThere('sys/config/ui/headers/X-Form'), undo: remove('sys/config/ui/headers/X-Form') },
  { name: 'settings/cors', at: '/ui/settings/browser', submit: 'Allow', bad: fill('Origins, with commas', ''), good: fill('Origins, with commas', 'https://tools.example'), asks: /\/sys\/config\/cors$/, there: async (server) => (await server.must('GET', 'sys/config/cors'))['data'].enabled === true, undo: remove('sys/config/cors') },
  { name: 'logins/enable', at: '/ui/people/logins/', opener: 'Enable one', submit: 'Enable', bad: all(select('Kind', 'github'), fill('Path', 'userpass')), good: all(select('Kind', 'okta'), fill('Path', 'form-okta')), asks: /\/sys\/auth\/form-okta$/, there: async (server) => (await server.must('GET', 'sys/auth'))['data']['form-okta/']?.type === 'okta', undo: remove('sys/auth/form-okta') },
  { name: 'logins/config', at: '/ui/people/logins/github/', opener: 'Set up', submit: 'Save', bad: all(fill('Organization', 'acme'), fill('GitHub Enterprise Server', 'no address')), good: all(fill('Organization', 'acme'), async (form) => form.getByLabel('GitHub Enterprise Server').fill(kept.github)), asks: /\/auth\/github\/config$/, there: async (server) => (await server.api('GET', 'auth/github/config'))['data']?.organization === 'acme' },
  { name: 'logins/member', at: '/ui/people/logins/userpass/', opener: 'New user', submit: 'Make it', bad: fill('Name', 'grace'), good: all(fill('Name', 'grace'), fill('Password', PASSWORD), fill('Policies, with commas', 'default, dev')), asks: /\/auth\/userpass\/users\/grace$/, there: isThere('auth/userpass/users/grace'), undo: remove('auth/userpass/users/grace') },
  { name: 'groups/edit', at: '/ui/people/groups/', opener: 'New group', submit: 'Make it', bad: all(fill('Name', 'form-group'), fill('Policies, with commas', 'root')), good: all(fill('Name', 'form-group'), fill('Policies, with commas', 'default')), asks: /\/identity\/group$/, there: isThere('identity/group/name/form-group'), undo: remove('identity/group/name/form-group') },
  { name: 'tokens/new', at: '/ui/tokens/', opener: 'New token', submit: 'Make it', bad: fill('Lives for', 'a while'), good: all(fill('Name', 'by-a-form'), fill('Lives for', '5m')), asks: /\/auth\/token\/create$/, there: () => Promise.resolve(true) },
  { name: 'transit/new', at: '/ui/transit/transit/', opener: 'New key', submit: 'Make it', bad: all(fill('Name', 'form'), select('Kind', 'ed25519'), async (form) => form.getByLabel('Derived').check(), select('Kind', 'rsa-2048')), good: all(fill('Name', 'form'), select('Kind', 'aes256-gcm96'), async (form) => form.getByLabel('Derived').uncheck()), asks: /\/transit\/keys\/form$/, there: isThere('transit/keys/form') },
  { name: 'transit/limits', at: '/ui/transit/transit/kept', submit: 'Save limits', bad: fill('Decrypts from version', '99'), good: all(fill('Decrypts from version', '1'), fill('Rotates by itself after', '720h')), asks: /\/transit\/keys\/kept\/config$/, there: async (server) => (await server.must('GET', 'transit/keys/kept'))['data'].auto_rotate_period === 2_592_000, undo: (server) => server.must('POST', 'transit/keys/kept/config', { auto_rotate_period: 0 }) },
  { name: 'transit/bench', at: '/ui/transit/transit/kept', submit: 'decrypt', bad: async (form, page) => { await page.getByRole('button', { name: 'decrypt' }).first().click(); await form.getByLabel('Ciphertext').fill('vault:v1:no'); }, good: async (form, page) => { await page.getByRole('button', { name: 'decrypt' }).first().click(); await form.getByLabel('Ciphertext').fill(kept.ciphertext); }, asks: /\/transit\/decrypt\/kept$/, there: () => Promise.resolve(true) },
  { name: 'tools/wrap', at: '/ui/tools/wrap', submit: 'wrap', bad: all(fill('JSON', '{"a":"b"}'), fill('Seconds', '99999999999')), good: all(fill('JSON', '{"a":"b"}'), fill('Seconds', '60')), asks: /\/sys\/wrapping\/wrap$/, there: () => Promise.resolve(true) },
  { name: 'tools/random', at: '/ui/tools/random', submit: 'Draw', bad: fill('Bytes', '99999999'), good: fill('Bytes', '32'), asks: /\/sys\/tools\/random\/32$/, there: () => Promise.resolve(true) },
  { name: 'tools/hash', at: '/ui/tools/hash', submit: 'Hash', good: fill('Text', 'abc'), asks: /\/sys\/tools\/hash\/sha2-256$/, there: () => Promise.resolve(true) },
  { name: 'tools/password', at: '/ui/tools/password', submit: 'Generate', bad: fill('Policy', 'nobodys'), good: fill('Policy', 'long'), asks: /\/sys\/policies\/password\/long\/generate$/, reads: true, there: () => Promise.resolve(true) },
  { name: 'audit/enable', at: '/ui/audit', opener: 'Enable a device', submit: 'Enable a file device', bad: fill('File on the server', '/proc/nowhere/audit.log'), good: async (form) => form.getByLabel('File on the server').fill(kept.audit), asks: /\/sys\/audit\/file$/, there: async (server) => (await server.must('GET', 'sys/audit'))['data']['file/'] !== undefined || (await server.must('GET', 'sys/audit'))['file/'] !== undefined, undo: remove('sys/audit/file') },
  { name: 'secret/metadata', at: '/ui/s/kept/a?tab=meta', submit: 'Save metadata', bad: fill('Delete a version after', 'soon'), good: all(fill('Owner', 'ada'), fill('Delete a version after', '720h')), asks: /\/kept\/metadata\/a$/, there: async (server) => (await server.must('GET', 'kept/metadata/a'))['data'].custom_metadata?.owner === 'ada', undo: (server) => server.must('POST', 'kept/metadata/a', { custom_metadata: {}, delete_version_after: '0s' }) },
];
async function world(server: Server): Promise<void> {
  await server.must('PUT', 'sys/policies/acl/admin', { policy: ADMIN });
  await server.must('POST', 'sys/auth/userpass', { type: 'userpass', description: 'People', config: { listing_visibility: 'unauth' } });
  await server.must('POST', 'auth/userpass/users/ops', { password: PASSWORD, token_policies: ['admin'] });
  await server.must('POST', 'sys/mounts/kept', { type: 'kv', options: { version: '2' } });
  await server.must('POST', 'kept/data/a', { data: { k: 'v' } });
  await server.must('POST', 'sys/mounts/transit', { type: 'transit' });
  await server.must('POST', 'transit/keys/kept', {});
  await server.must('POST', 'sys/namespaces/team', {});
  await server.must('POST', 'sys/auth/github', { type: 'github' });
  await server.must('PUT', 'sys/policies/password/long', { policy: 'length = 20\nrule "charset" {\n  charset = "abcdefghijklmnopqrstuvwxyz"\n}\n' });
  kept.ciphertext = (await server.must('POST', 'transit/encrypt/kept', { plaintext: btoa('plain') }))['data'].ciphertext as string;
  kept.audit = join(server.folder, 'form-audit.log');
}

/** The form of a case in the page, opened if it is a dialog. */
async function opened(one: Watched, { name, at, opener }: Case): Promise<Locator> {
  const { page } = one;
  if (new URL(page.url()).pathname + new URL(page.url()).search !== at) await one.go(at);
  const form = page.locator(`form[data-form="${name}"]`).first();
  if (opener !== undefined) await page.getByRole('button', { name: opener, exact: typeof opener === 'string' }).first().click();
  await form.waitFor();
  return form;
}
const button = (form: Locator, text: string): Locator => form.locator('button[type=submit]', { hasText: text });
const close = async (page: Page): Promise<void> => { for (let i = 0; i < 3 && (await page.locator('dialog[open]').count()) > 0; i += 1) { await page.keyboard.press('Escape'); await page.waitForTimeout(30); } };

/** A GitHub that knows one organization. */
async function github(): Promise<{ base: string; stop: () => void }> {
  const far = createServer((_, reply) => reply.writeHead(200, { 'Content-Type': 'application/json' }).end('{"login":"acme","id":4200042}'));
  await new Promise<void>((done) => far.listen(0, '127.0.0.1', done));
  const address = far.address();
  return { base: `http://127.0.0.1:${typeof address === 'object' && address ? address.port : 0}`, stop: () => far.close() };
}

/** Runs one part of the list at a time, so that no flow is long. */
const parts = (count: number): Case[][] => Array.from({ length: count }, (_, part) => CASES.filter((_, i) => i % count === part));

/** Starts a server with what the forms are about, and signs in. */
async function begin(browser: import('playwright-core').Browser, run: (one: Watched, server: Server) => Promise<void>, durable = false): Promise<void> {
  const far = await github();
  kept.github = far.base;
  const server = durable ? await Server.durable() : await Server.dev();
  try {
    if (durable) {
      const made = await server.must('PUT', 'sys/init', { secret_shares: 1, secret_threshold: 1 }, '');
      server.token = made['root_token'] as string;
      server.share = (made['keys_base64'] as string[])[0] ?? '';
      await server.must('PUT', 'sys/unseal', { key: server.share }, '');
      await until(async () => (await server.api('GET', 'sys/mounts'))['status'] === 200, 'the server answers');
    }
    await world(server);
    const one = await Watched.open(browser, server);
    await one.login('ops');
    await run(one, server);
    await one.finish();
  } finally { server.stop(); far.stop(); }
}

export const forms: Flow[] = [
  ...parts(2).map((list, i): Flow => ({ name: `forms: refused with what was typed, sent once by a double click, closed by the way back (${i + 1})`, run: ({ browser }) => begin(browser, async (one, server) => {
    const { page } = one;
    for (const each of list) {
      const label = `form ${each.name}`;
      try {
        let form = await opened(one, each);
        if (each.opener !== undefined) {
          // The way back of the browser closes it, and the screen it was over is left.
          await page.goBack();
          await page.locator('dialog[open]').waitFor({ state: 'detached' });
          form = await opened(one, each);
        }
        if (each.bad) {
          await each.bad(form, page);
          await button(form, each.submit).click();
          await page.locator('.note.bad').first().waitFor();
          ok(await form.isVisible(), `${label} stays after a refusal`);
        }
        await each.good(form, page);
        const before = one.urls.length;
        await button(form, each.submit).dblclick({ delay: 0 }).catch(async (error: unknown) => { if (!/detached|not attached|not stable/.test(String(error))) throw error; });
        await until(() => each.there(server), `${label} did what it says`);
        await page.waitForTimeout(60);
        equal(one.urls.filter((url, i) => i >= before && each.asks.test(new URL(url).pathname) && (each.reads || one.methods[i] !== 'GET')).length, 1, `${label} is sent once`);
        await page.locator('.note.bad').first().waitFor({ state: 'detached' });
        await close(page);
        await each.undo?.(server);
      } catch (error) { await page.screenshot({ path: '../target/ui-shots/failed-form.png' }).catch(() => undefined); throw new Error(`${label}: ${error instanceof Error ? error.message : String(error)}`); }
    }
  }) })),
  ...parts(2).map((list, i): Flow => ({ name: `forms: a session that ends under a form, or its server sealed, loses nothing of it (${i + 1})`, run: ({ browser }) => begin(browser, async (one, server) => {
    const { page } = one;
    for (const each of list) {
      try {
        const form = await opened(one, each);
        await each.good(form, page);
        const token = await page.evaluate(() => (JSON.parse(sessionStorage.getItem('kallisto.session') ?? '{}') as { token?: string }).token ?? '');
        // Every third server is sealed under the form; under the others the session ends.
        const isSeal = CASES.indexOf(each) % 3 === 0;
        if (isSeal) await server.must('PUT', 'sys/seal'); else await server.must('POST', 'auth/token/revoke', { token });
        // A stream ends with its token, so the cover may be there before the button is pressed.
        const cover = page.locator('dialog.cover');
        await Promise.race([button(form, each.submit).click({ timeout: 8000 }).catch(() => undefined), cover.waitFor()]);
        await cover.waitFor();
        for (let i = 0; i < 3; i += 1) await page.keyboard.press('Escape');
        ok(await cover.evaluate((dialog) => (dialog as HTMLDialogElement).open), 'nobody gets behind the cover by Escape');
        if (isSeal) { await cover.getByLabel('Your share').fill(server.share); await cover.getByRole('button', { name: 'Enter the share' }).click(); } else {
          await cover.getByLabel('User name').fill('ops');
          await cover.getByLabel('Password').fill(PASSWORD);
          await cover.getByRole('button', { name: 'Sign in', exact: true }).click();
        }
        await cover.waitFor({ state: 'detached' });
        ok(await form.isVisible(), 'it is still there');
        equal(await page.locator('.note.bad').count(), 0, 'nothing stands there of what the cover said');
        await button(form, each.submit).click();
        await until(() => each.there(server), 'it did what it says');
        await close(page);
        await each.undo?.(server);
      } catch (error) { await page.screenshot({ path: '../target/ui-shots/failed-form.png' }).catch(() => undefined); throw new Error(`form ${each.name}: ${error instanceof Error ? error.message : String(error)}`); }
    }
  }, true) })),
];

/** Engines without a screen of their own, by the console: a request that is refused, and one that is not, read back over the API. */
const ENGINES: { type: string; route: string; bad: Record<string, string>; good: Record<string, string>; there: (server: Server) => Promise<boolean> }[] = [
  { type: 'pki', route: 'root/generate/{kind}', bad: { kind: 'internal', common_name: 'Form CA', key_type: 'none' }, good: { kind: 'internal', common_name: 'Form CA', key_type: 'ec', ttl: '720h' }, there: async (server) => String((await server.api('GET', 'pki/cert/ca'))['data']?.certificate).includes('BEGIN CERTIFICATE') },
  { type: 'ssh', route: 'roles/{role}', bad: { role: 'form', key_type: 'none' }, good: { role: 'form', key_type: 'ca', allow_user_certificates: 'true', allowed_users: 'ada,grace' }, there: async (server) => (await server.api('GET', 'ssh/roles/form'))['data']?.allowed_users === 'ada,grace' },
  { type: 'database', route: 'config/{name}', bad: { name: 'main', plugin_name: 'no-such-plugin' }, good: { name: 'main', plugin_name: 'postgresql-database-plugin', connection_url: 'postgresql://{{username}}:{{password}}@127.0.0.1:1/x?sslmode=disable', username: 'u', password: 'p', verify_connection: 'false', allowed_roles: 'app' }, there: async (server) => (await server.api('GET', 'database/config/main'))['data']?.allowed_roles?.[0] === 'app' },
  { type: 'rabbitmq', route: 'config/connection', bad: { connection_uri: 'no address', username: 'u', password: 'p' }, good: { connection_uri: 'http://127.0.0.1:1', username: 'u', password: 'p', verify_connection: 'false' }, there: () => Promise.resolve(true) },
  { type: 'ldap', route: 'config', bad: { url: 'no address' }, good: { url: 'ldap://127.0.0.1:1', binddn: 'cn=manager,dc=example,dc=org', bindpass: 'secretpw' }, there: async (server) => (await server.api('GET', 'ldap/config'))['data']?.binddn === 'cn=manager,dc=example,dc=org' },
  { type: 'kubernetes', route: 'config', bad: { kubernetes_ca_cert: 'no certificate' }, good: { kubernetes_host: 'https://127.0.0.1:1', service_account_jwt: 'x.y.z', disable_local_ca_jwt: 'true' }, there: async (server) => (await server.api('GET', 'kubernetes/config'))['data']?.kubernetes_host === 'https://127.0.0.1:1' },
  { type: 'totp', route: 'keys/{name}', bad: { name: 'form', generate: 'true' }, good: { name: 'form', generate: 'true', issuer: 'Kallisto', account_name: 'ada' }, there: async (server) => (await server.api('GET', 'totp/keys/form'))['data']?.issuer === 'Kallisto' },
];

forms.push({ name: 'forms: engines without a screen of their own are set up by the fields of their routes', run: ({ browser }) => begin(browser, async (one, server) => {
  const { page } = one;
  for (const each of ENGINES) {
    try {
      await server.must('POST', `sys/mounts/${each.type}`, { type: each.type });
      await one.go('/ui/settings/mounts');
      await page.getByRole('link', { name: `Open ${each.type}/` }).click();
      await page.getByRole('heading', { name: `${each.type}/` }).waitFor();
      await page.getByLabel('Filter').fill(`POST ${each.type}/${each.route}`);
      await page.getByRole('option', { name: `${each.route} POST` }).first().click();
      const form = page.locator('form[data-form="tools/api"]');
      const send = async (fields: Record<string, string>): Promise<void> => {
        for (const [name, value] of Object.entries(fields)) {
          const field = form.getByLabel(name, { exact: true });
          if (await field.evaluate((element) => element.tagName === 'SELECT')) await field.selectOption(value); else await field.fill(value);
        }
        await form.getByRole('button', { name: 'Send' }).click();
      };
      await send(each.bad);
      await form.locator('.note.bad').waitFor();
      for (const name of Object.keys(each.bad)) if (!(name in each.good)) await form.getByLabel(name, { exact: true }).fill('');
      await send(each.good);
      await page.locator('pre.json').waitFor();
      ok(await each.there(server), 'it is there');
    } catch (error) { await page.screenshot({ path: '../target/ui-shots/failed-form.png' }).catch(() => undefined); throw new Error(`${each.type}: ${error instanceof Error ? error.message : String(error)}`); }
  }
  await one.axe();
}) });

forms.push({ name: 'forms: of a server on disk: autopilot, join tokens, schedules, new shares, a locked namespace; a server that joins nobody', run: ({ browser }) => begin(browser, async (one, server) => {
  const { page } = one;
  const form = (name: string): Locator => page.locator(`form[data-form="${name}"]`).first();
  await one.go('/ui/cluster');
  await form('cluster/autopilot').getByLabel('max trailing logs').fill('many');
  await form('cluster/autopilot').getByRole('button', { name: 'Save' }).click();
  await form('cluster/autopilot').locator('.note.bad').waitFor();
  await form('cluster/autopilot').getByLabel('max trailing logs').fill('1234');
  await form('cluster/autopilot').getByRole('button', { name: 'Save' }).click();
  await until(async () => (await server.must('GET', 'sys/storage/raft/autopilot/configuration'))['data'].max_trailing_logs === 1234, 'autopilot is changed');
  await page.getByRole('button', { name: 'Add a server' }).click();
  await form('cluster/join-token').getByRole('button', { name: 'Make a join token' }).click();
  await page.getByText('kallisto operator raft join -join-token=').waitFor();
  await close(page);
  await one.go('/ui/snapshots');
  await page.getByRole('button', { name: 'New schedule' }).click();
  await form('snapshots/schedule').getByLabel('Every').fill('now and then');
  await form('snapshots/schedule').getByRole('button', { name: 'Save schedule' }).click();
  await page.locator('.note.bad').waitFor();
  await form('snapshots/schedule').getByLabel('Every').fill('24h');
  await form('snapshots/schedule').getByLabel('Folder on the server').fill(join(server.folder, 'snapshots'));
  await form('snapshots/schedule').getByRole('button', { name: 'Save schedule' }).click();
  await form('snapshots/schedule').waitFor({ state: 'detached' }).catch(async () => { throw new Error(await page.locator('.note.bad').first().innerText()); });
  equal((await server.must('GET', 'sys/storage/raft/snapshot-auto/config/nightly'))['data'].retain, 7, 'the schedule is kept');
  // New shares: more needed than there are is refused; the old share brings the new one.
  await one.go('/ui/settings/seal');
  await form('rekey/begin').getByLabel('Shares').fill('1');
  await form('rekey/begin').getByLabel('Needed').fill('2');
  await form('rekey/begin').getByRole('button', { name: 'Begin' }).click();
  await page.locator('.note.bad').waitFor();
  await form('rekey/begin').getByLabel('Needed').fill('1');
  await form('rekey/begin').getByRole('button', { name: 'Begin' }).click();
  const share = form('rekey/share');
  await share.getByLabel('An old share').fill(Buffer.alloc(33, 7).toString('base64'));
  await share.getByRole('button', { name: 'Give' }).click();
  await page.locator('.note.bad').waitFor();
  if (!(await share.isVisible())) await form('rekey/begin').getByRole('button', { name: 'Begin' }).click();
  await share.getByLabel('An old share').fill(server.share);
  await share.getByRole('button', { name: 'Give' }).click();
  const [file] = await Promise.all([page.waitForEvent('download'), page.getByRole('button', { name: 'Share 1' }).click()]);
  server.share = readFileSync(await file.path(), 'utf8').trim();
  await page.getByRole('button', { name: 'All are stored' }).click();
  await server.must('PUT', 'sys/seal');
  await server.must('PUT', 'sys/unseal', { key: server.share }, '');
  await until(async () => (await server.api('GET', 'sys/mounts'))['status'] === 200, 'the new share opens the server');
  // A namespace that is locked opens with its key alone.
  const { data } = await server.must('POST', 'sys/namespaces/api-lock/lock/team', {});
  await one.go('/ui/settings/namespaces');
  await page.getByRole('button', { name: /^Unlock team/ }).click();
  await form('namespaces/unlock').getByLabel('Unlock key').fill('wrong');
  await form('namespaces/unlock').getByRole('button', { name: 'Unlock' }).click();
  await page.locator('.note.bad').waitFor();
  await form('namespaces/unlock').getByLabel('Unlock key').fill(data.unlock_key as string);
  await form('namespaces/unlock').getByRole('button', { name: 'Unlock' }).click();
  await until(async () => (await server.must('GET', 'sys/namespaces/team'))['data'].locked === false, 'it is open again');
  // A server that nobody knows is not joined, and one that is there is.
  const other = await Server.durable();
  try {
    const two = await Watched.open(browser, other);
    await two.page.goto('/ui/setup');
    await two.page.getByRole('button', { name: 'Join one' }).click();
    const join = two.page.locator('form[data-form="setup/join"]');
    await join.getByLabel('Address of a server of the cluster').fill('no address');
    await join.getByRole('button', { name: 'Join' }).click();
    await two.page.locator('.note.bad').waitFor();
    await join.getByLabel('Address of a server of the cluster').fill(server.base);
    // One try in five seconds, whatever became of it.
    await two.page.waitForTimeout(5200);
    await join.getByRole('button', { name: 'Join' }).click();
    await two.page.getByText('This server joins.').waitFor({ timeout: 15_000 }).catch(async () => { throw new Error(await two.page.locator('main').innerText()); });
    await two.finish();
  } finally { other.stop(); }
}, true) });

forms.push({ name: 'forms: that go somewhere, filter, or make something here: namespaces, paths, a review, a policy, a generated value, a link with a phrase', run: ({ browser }) => begin(browser, async (one, server) => {
  const { page } = one;
  const form = (name: string): Locator => page.locator(`form[data-form="${name}"]`).first();
  await page.getByRole('button', { name: 'Namespace root' }).click();
  await form('namespaces/switch').getByLabel('Name or path').fill('team');
  await page.keyboard.press('Enter');
  await page.waitForURL(/ns=team/);
  await one.go('/ui/s/');
  await form('secrets/go').getByLabel('Go to a path').fill('v1/kept/data/a');
  await page.keyboard.press('Enter');
  await page.getByRole('heading', { name: 'a', exact: true }).waitFor();
  await one.go('/ui/s/kept/a?tab=edit');
  await page.getByRole('button', { name: 'Generate a value for k' }).click();
  await form('secret/generate').getByLabel('How').selectOption('policy');
  await form('secret/generate').getByLabel('Password policy').fill('nobodys');
  await form('secret/generate').getByRole('button', { name: 'Generate' }).click();
  await form('secret/generate').getByText('There is no such password policy').waitFor();
  await form('secret/generate').getByLabel('Password policy').fill('long');
  await form('secret/generate').getByRole('button', { name: 'Generate' }).click();
  await until(async () => /^[a-z]{20}$/.test(await page.getByLabel('Value of k').inputValue()), 'the value is that of the policy');
  // Leaving asks, and nothing was saved.
  await page.getByRole('button', { name: 'Cancel' }).click();
  await form('confirm').getByRole('button', { name: 'Leave' }).click();
  equal((await server.must('GET', 'kept/data/a'))['data'].data.k, 'v', 'a generated value alone changes nothing');
  await one.go('/ui/review');
  await form('review').getByLabel('Path').fill('kept/data/a');
  await page.keyboard.press('Enter');
  await page.getByText('subject').first().waitFor();
}) });

forms.push({ name: 'forms: refused by a right that went meanwhile: policies, shares, deletions, exports, merges; places compared, a phrase, a namespace before the login', run: ({ browser }) => begin(browser, async (one, server) => {
  const { page } = one;
  const form = (name: string): Locator => page.locator(`form[data-form="${name}"]`).first();
  /** Takes a right away for as long as `run` takes: what is sent is refused, and stays in its form. */
  const without = async (path: string, run: () => Promise<void>): Promise<void> => {
    await server.must('PUT', 'sys/policies/acl/admin', { policy: `${ADMIN}\npath "${path}" { capabilities = ["deny"] }` });
    await run();
    await page.locator('.note.bad').first().waitFor();
    await server.must('PUT', 'sys/policies/acl/admin', { policy: ADMIN });
  };
  const steps: Record<string, () => Promise<void>> = {
    compare: async () => {
      await server.must('POST', 'kept/data/b', { data: { k: 'w' } });
      await one.go('/ui/compare');
      await form('compare').getByLabel('Compare', { exact: true }).fill('kept/a');
      await form('compare').getByLabel('with', { exact: true }).fill('kept/b');
      await form('compare').getByRole('button', { name: 'Compare' }).click();
      await page.getByText('differs', { exact: true }).waitFor();
    },
    policy: async () => {
      await one.go('/ui/policies/');
      await page.getByRole('button', { name: 'New policy' }).click();
      await form('policy/new').getByLabel('Name').fill('form');
      await form('policy/new').getByRole('button', { name: 'Go on' }).click();
      const text = page.getByLabel('Text of form');
      await text.fill('path "kept/data/*" {\n  capabilities = ["read"]\n}\n');
      await page.getByRole('button', { name: 'Save', exact: true }).click();
      await page.getByText('Policy saved').waitFor();
      await text.fill('path "kept/data/*" {\n  capabilities = ["read", "list"]\n}\n');
      const save = async (): Promise<void> => { await page.getByRole('button', { name: 'Save', exact: true }).click(); await form('policy/review').getByRole('button', { name: 'Save' }).click(); };
      await without('sys/policies/acl/form', save);
      await save();
      await until(async () => String((await server.must('GET', 'sys/policies/acl/form'))['data'].policy).includes('list'), 'the policy is saved');
      // Until the page has heard that too, it asks before it goes elsewhere.
      await page.getByText('draft, not saved', { exact: true }).waitFor({ state: 'hidden' });
    },
    share: async () => {
      await one.go('/ui/shared');
      await page.getByRole('button', { name: 'Share a text' }).first().click();
      await form('share').getByLabel('Text', { exact: true }).fill('told once');
      const send = (): Promise<void> => form('share').getByRole('button', { name: 'Make the link' }).click();
      await without('sys/wrapping/wrap', send);
      await form('share').getByLabel(/^Ask for a phrase too/).check();
      const phrase = await form('share').getByLabel('Phrase', { exact: true }).inputValue();
      await send();
      const link = (await page.locator('.link-box code').innerText()).trim();
      await close(page);
      const reader = await Watched.open(browser, server);
      const taken = reader.page.locator('form[data-form="open/token"]');
      await reader.page.goto('/ui/open');
      await taken.getByLabel('Link or token').fill('hvs.nobodys');
      await taken.getByRole('button', { name: 'Look' }).click();
      await reader.page.getByText('This link opens nothing any more.').waitFor();
      await reader.page.goto('/ui/open?again');
      await taken.getByLabel('Link or token').fill(link);
      await taken.getByRole('button', { name: 'Look' }).click();
      await reader.page.getByRole('button', { name: 'Open it now' }).click();
      const secret = reader.page.locator('form[data-form="open/phrase"]');
      await secret.getByLabel('Phrase').fill('another');
      await secret.getByRole('button', { name: 'Decrypt' }).click();
      await reader.page.locator('.note.bad').waitFor();
      await secret.getByLabel('Phrase').fill(phrase);
      await secret.getByRole('button', { name: 'Decrypt' }).click();
      await reader.page.getByText('The link is used up').waitFor();
      await reader.page.goto('/ui/login');
      await reader.page.locator('summary', { hasText: 'Namespace' }).click();
      await reader.page.locator('form[data-form="login/namespace"]').getByLabel('Path').fill('team');
      await reader.page.getByRole('button', { name: 'Use it' }).click();
      await reader.page.waitForURL(/ns=team/);
      await reader.finish();
    },
    confirm: async () => {
      await server.must('POST', 'sys/quotas/rate-limit/form', { rate: 5000 });
      await one.go('/ui/settings/quotas');
      // Until the page has heard that it may: what it hears afterwards is another answer.
      await page.getByRole('button', { name: 'Remove form', disabled: false }).waitFor();
      await without('sys/quotas/rate-limit/form', async () => { await page.getByRole('button', { name: 'Remove form' }).click(); await form('confirm').getByRole('button', { name: 'Remove' }).click(); });
    },
    delete: async () => {
      await one.go('/ui/s/kept/b');
      await page.getByRole('button', { name: 'Delete', exact: true }).click();
      const send = form('secrets/delete').getByRole('button', { name: 'Delete 1 secret' });
      await send.waitFor();
      await without('sys/kallisto/kv/delete', () => send.click());
      await close(page);
      await page.getByRole('button', { name: 'Move', exact: true }).click();
      await form('secrets/move').getByLabel('To', { exact: true }).fill('kept/a');
      await form('secrets/move').getByRole('button', { name: 'See what happens' }).click();
      await form('secrets/move').locator('.note.bad').waitFor();
      await close(page);
      await one.go('/ui/s/kept/');
      await page.getByRole('button', { name: 'Export' }).click();
      await without('sys/kallisto/kv/read', () => form('secrets/export').getByRole('button', { name: 'Export' }).click());
      await close(page);
    },
    merge: async () => {
      await server.must('POST', 'auth/userpass/users/twin', { password: PASSWORD });
      const { auth: twin } = await server.must('POST', 'auth/userpass/login/twin', { password: PASSWORD }, '');
      const { auth: ops } = await server.must('POST', 'auth/userpass/login/ops', { password: PASSWORD }, '');
      const { data } = await server.must('GET', `identity/entity/id/${twin.entity_id}`);
      await one.go(`/ui/people/entities/${ops.entity_id}`);
      await page.getByRole('button', { name: 'Merge' }).click();
      await form('entities/merge').getByRole('button', { name: data.name as string }).click();
      await form('entities/merge').getByRole('button', { name: 'Merge', exact: true }).click();
      await form('entities/merge').locator('.note.bad').waitFor();
      await close(page);
    },
    root: async () => {
      await one.go('/ui/settings/seal');
      await page.getByRole('button', { name: 'Begin' }).last().click();
      await form('generate-root/share').getByLabel('A share for the root token').fill(Buffer.alloc(32, 7).toString('base64'));
      await form('generate-root/share').getByRole('button', { name: 'Give' }).click();
      await page.locator('.note.bad').waitFor();
      await server.api('DELETE', 'sys/generate-root/attempt');
    },
    audit: async () => {
      await server.must('POST', 'sys/audit/file', { type: 'file', options: { file_path: kept.audit } });
      await one.go('/ui/audit');
      await form('audit/filter').getByLabel('Known value').fill('v');
      await without('sys/audit-hash/file', () => form('audit/filter').getByRole('button', { name: 'Filter' }).click());
    },
  };
  for (const [name, run] of Object.entries(steps)) {
    try { await run(); } catch (error) { await page.screenshot({ path: '../target/ui-shots/failed-form.png' }).catch(() => undefined); throw new Error(`${name}: ${error instanceof Error ? error.message : String(error)}`); }
  }
}) });

/** The names of forms in the sources; a form without a name is one too. */
function written(folder: string): string[] {
  return readdirSync(folder, { withFileTypes: true }).flatMap((entry) => {
    const path = join(folder, entry.name);
    if (entry.isDirectory()) return written(path);
    if (!entry.name.endsWith('.tsx')) return [];
    const text = readFileSync(path, 'utf8');
    return [...[...text.matchAll(/<Form\s+name="([^"]+)"/g)].map((found) => found[1] ?? ''), ...(entry.name === 'form.tsx' ? [] : [...text.matchAll(/<form\b/g)].map(() => `${path} has a form without a name`))];
  });
}

/** Last of all flows: what is in the sources is what is in the list, and was sent. */
export const everyForm: Flow[] = [{ name: 'forms: each was sent in a browser, and refused where it can be', run: async () => {
  equal([...new Set(written('src'))].sort(), Object.keys(FORMS).sort(), 'the list of test/forms.ts is that of the sources');
  const missing = Object.entries(FORMS).flatMap(([name, kind]) => {
    const seen = SENT.get(name);
    return !seen ? [`${name} was never sent`] : kind === 'refusable' && seen.taken === 0 ? [`${name} never succeeded`] : kind === 'refusable' && seen.refused === 0 ? [`${name} was never refused`] : [];
  });
  equal(missing, [], 'forms without a flow');
  console.log(`        ${SENT.size} forms, sent ${[...SENT.values()].reduce((sum, { sent }) => sum + sent, 0)} times`);
} }];
