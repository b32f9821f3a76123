// Flows 3, 18, 19 and 23: OIDC with Kallisto itself as the provider, the access review, the token tree, snapshots.
import { readFileSync } from 'node:fs';
import { Watched } from '../browser.ts';
import { equal, ok, until } from '../assert.ts';
import { Server } from '../server.ts';
import type { Flow } from './index.ts';

const PEOPLE: Record<string, string> = { ops: 'admin', ada: 'dev', rita: 'reader', walt: 'writer', noah: 'default' };
const CAPS = ['read', 'update', 'patch', 'list'];
const PATHS = ['secret/data/apps/payments/stripe', 'secret/data/apps/payments/mailgun', 'secret/metadata/apps', 'secret/subkeys/apps/payments/stripe', 'secret/subkeys/x', 'sys/kallisto/kv/list', 'sys/mounts', 'identity/entity/id', 'auth/token/accessors', 'nowhere/at/all'];

/** A provider on a server of its own, which has one user, and the login method on `dev` that asks it. */
async function provide(dev: Server): Promise<Server> {
  const far = await Server.dev();
  await far.must('POST', 'sys/auth/userpass', { type: 'userpass', description: 'People', config: { listing_visibility: 'unauth' } });
  await far.must('POST', 'auth/userpass/users/grace', { password: 'correct horse battery', token_policies: ['default'] });
  await far.must('POST', 'identity/oidc/client/kallisto', { redirect_uris: [`${dev.base}/ui/callback/company`], assignments: ['allow_all'] });
  const { data: client } = await far.must('GET', 'identity/oidc/client/kallisto');
  await dev.must('POST', 'sys/auth/company', { type: 'oidc', description: 'Company', config: { listing_visibility: 'unauth' } });
  await dev.must('POST', 'auth/company/config', { oidc_discovery_url: `${far.base}/v1/identity/oidc/provider/default`, oidc_client_id: client.client_id, oidc_client_secret: client.client_secret, default_role: 'staff' });
  await dev.must('POST', 'auth/company/role/staff', { user_claim: 'sub', allowed_redirect_uris: [`${dev.base}/ui/callback/company`], token_policies: ['dev'] });
  return far;
}

export const operate: Flow[] = [
  { name: '3 OIDC in the same tab with a local issuer, by the authorize screen; a popup over an unsaved form; a popup that is blocked', run: async ({ browser, dev }) => {
    const far = await provide(dev);
    try {
      const one = await Watched.open(browser, dev);
      one.also = far.base;
      const { page } = one;
      await page.goto('/ui/s/secret/apps/payments/');
      await page.getByRole('button', { name: 'Company', exact: true }).click();
      await page.getByRole('button', { name: 'Continue with Company' }).click();
      // At the provider: sign in there, then say who may know.
      await page.waitForURL((url) => url.href.startsWith(`${far.base}/ui/vault/identity/oidc/provider/default/authorize`));
      await page.getByLabel('User name').fill('grace');
      await page.getByLabel('Password').fill('correct horse battery');
      await page.getByRole('button', { name: 'Sign in', exact: true }).click();
      await page.getByRole('heading', { name: 'Sign in to an application' }).waitFor();
      await one.axe();
      await page.getByRole('button', { name: /^Go on to 127\.0\.0\.1/ }).click();
      await page.locator('.app').waitFor();
      await page.waitForURL((url) => url.href === `${dev.base}/ui/s/secret/apps/payments/`);
      await page.getByRole('option', { name: 'paypal' }).waitFor();
      // An unsaved form, a session that ends, and a popup.
      await one.go('/ui/s/secret/apps/payments/paypal?tab=edit');
      await page.getByLabel('Value of PASSWORD').fill('half-typed');
      const token = await page.evaluate(() => (JSON.parse(sessionStorage.getItem('kallisto.session') ?? '{}') as { token?: string }).token ?? '');
      await dev.must('POST', 'auth/token/revoke', { token });
      await one.saveWithoutSession();
      await page.evaluate(() => { const kept = globalThis as unknown as { realOpen: typeof open; open: unknown }; kept.realOpen = globalThis.open; kept.open = () => null; });
      await page.getByRole('button', { name: 'Continue with Company' }).click();
      await page.getByText('The browser blocked the window').waitFor();
      await page.evaluate(() => { const kept = globalThis as unknown as { realOpen: typeof open; open: unknown }; kept.open = kept.realOpen; });
      const [popup] = await Promise.all([one.context.waitForEvent('page'), page.getByRole('button', { name: 'Continue with Company' }).click()]);
      await popup.waitForURL((url) => url.href.startsWith(far.base));
      if (await popup.getByLabel('User name').or(popup.getByRole('button', { name: /^Go on to/ })).first().waitFor().then(() => popup.getByLabel('User name').count())) {
        await popup.getByLabel('User name').fill('grace');
        await popup.getByLabel('Password').fill('correct horse battery');
        await popup.getByRole('button', { name: 'Sign in', exact: true }).click();
      }
      await Promise.all([popup.waitForEvent('close'), popup.getByRole('button', { name: /^Go on to/ }).click()]);
      await page.locator('.cover').waitFor({ state: 'detached' });
      equal(await page.getByLabel('Value of PASSWORD').inputValue(), 'half-typed', 'the edit is kept');
      ok(!one.urls.some((url) => url.includes(token)), 'no token in an address');
      await one.finish();
      // A way back that nobody asked for, and a provider that refuses.
      const two = await Watched.open(browser, dev);
      await two.page.goto('/ui/callback/company?code=x&state=y');
      await two.page.getByText('This login was not begun in this tab').waitFor();
      ok(!two.page.url().includes('code='), 'the code does not stay in the address');
      await two.page.goto('/ui/callback/company?error=access_denied&error_description=%3Cb%3Eno%3C/b%3E');
      await two.page.getByText('access_denied: <b>no</b>').waitFor();
      await two.finish();
    } finally { far.stop(); await dev.api('DELETE', 'sys/auth/company'); }
  } },
  { name: '18 the review equals 200 direct questions for capabilities', run: async ({ browser, dev }) => {
    // Somebody of the flow's own without rights: another flow locks nora out.
    await dev.must('POST', 'auth/userpass/users/noah', { password: 'correct horse battery', token_policies: ['default'] });
    const direct: Record<string, Record<string, string[]>> = {};
    for (const name of Object.keys(PEOPLE)) {
      const { auth } = await dev.must('POST', `auth/userpass/login/${name}`, { password: 'correct horse battery' }, '');
      direct[name] = (await dev.must('POST', 'sys/capabilities-self', { paths: PATHS }, auth.client_token))['data'] as Record<string, string[]>;
    }
    const one = await Watched.open(browser, dev);
    await one.login('ops');
    let questions = 0;
    for (const path of PATHS) for (const cap of CAPS) {
      await one.go(`/ui/review?path=${encodeURIComponent(path)}&cap=${cap}`);
      const table = one.page.getByRole('region', { name: `Who may ${cap} ${path}` });
      await table.waitFor();
      const listed = await table.locator('tbody td:first-child b').allTextContents();
      for (const name of Object.keys(PEOPLE)) {
        questions += 1;
        const may = direct[name]?.[path]?.some((one) => one === cap || one === 'root') ?? false;
        equal(listed.includes(name), may, `${name}: ${cap} on ${path}; listed: ${listed.join(' ')}`);
      }
    }
    equal(questions, 200, 'questions');
    await one.finish();
  } },
  { name: '19 the token tree: as many tokens end as its preview says', run: async ({ browser, dev }) => {
    const make = async (token: string, path = 'auth/token/create'): Promise<{ client_token: string; accessor: string }> => (await dev.must('POST', path, { policies: ['admin'], display_name: 'tree', ttl: '1h' }, token))['auth'];
    const top = await make('root', 'auth/token/create-orphan');
    const under: string[] = [];
    for (let i = 0; i < 3; i += 1) {
      const child = await make(top.client_token);
      under.push(child.accessor);
      for (let k = 0; k < 2; k += 1) under.push((await make(child.client_token)).accessor);
    }
    const living = async (): Promise<number> => { let found = 0; for (const accessor of [top.accessor, ...under]) if ((await dev.api('POST', 'auth/token/lookup-accessor', { accessor }))['status'] === 200) found += 1; return found; };
    equal(await living(), 10, 'made');
    const one = await Watched.open(browser, dev);
    const { page } = one;
    await one.login('ops');
    await one.go('/ui/tokens/');
    const row = page.getByRole('row', { name: new RegExp(top.accessor) });
    await row.getByRole('button', { name: 'Open 3 children' }).click();
    await page.getByRole('row', { name: new RegExp(under[0] ?? '') }).waitFor();
    await one.axe();
    await row.getByRole('button', { name: 'Revoke' }).click();
    await page.getByText('10 tokens end').waitFor();
    equal(await living(), 10, 'the preview ends nothing');
    await page.getByRole('button', { name: 'Revoke 10 tokens' }).click();
    await page.getByText('10 tokens ended').waitFor();
    equal(await living(), 0, 'all of them ended');
    await row.waitFor({ state: 'detached' });
    await one.finish();
  } },
  { name: '23 a snapshot is taken, checked and restored', run: async ({ browser }) => {
    const server = await Server.durable();
    try {
      const made = await server.must('PUT', 'sys/init', { secret_shares: 1, secret_threshold: 1 }, '');
      server.token = made['root_token'] as string;
      const unseal = async (): Promise<void> => { await until(async () => (await server.api('PUT', 'sys/unseal', { key: (made['keys_base64'] as string[])[0] }, ''))['sealed'] === false, 'unsealed'); await until(async () => (await server.api('GET', 'sys/mounts'))['status'] === 200, 'the server answers'); };
      await unseal();
      await server.must('POST', 'sys/mounts/secret', { type: 'kv', options: { version: '2' } });
      await server.must('PUT', 'sys/policies/acl/admin', { policy: 'path "*" { capabilities = ["create", "read", "update", "patch", "delete", "list", "sudo"] }' });
      await server.must('POST', 'sys/auth/userpass', { type: 'userpass', description: 'People', config: { listing_visibility: 'unauth' } });
      await server.must('POST', 'auth/userpass/users/ops', { password: 'correct horse battery', token_policies: ['admin'] });
      await server.must('POST', 'secret/data/a', { data: { k: 'before' } });
      const one = await Watched.open(browser, server);
      const { page } = one;
      // The dialog of the system for a place to save at, which nobody can answer here.
      await page.addInitScript(() => { delete (globalThis as { showSaveFilePicker?: unknown }).showSaveFilePicker; });
      await one.login('ops');
      await one.go('/ui/snapshots');
      const [file] = await Promise.all([page.waitForEvent('download'), page.getByRole('button', { name: 'Save a snapshot' }).click()]);
      const path = await file.path();
      ok(readFileSync(path).length > 1000, 'the file has something in it');
      await server.must('POST', 'secret/data/a', { data: { k: 'after' } });
      await page.locator('input[type=file]').setInputFiles(path);
      await page.getByRole('button', { name: 'Check' }).click();
      await page.locator('.note.ok').waitFor();
      await one.axe();
      equal((await server.must('GET', 'secret/data/a'))['data'].data, { k: 'after' }, 'a check changes nothing');
      await page.getByRole('button', { name: 'Restore' }).click();
      await page.getByRole('dialog').getByRole('textbox').fill('restore');
      await page.getByRole('dialog').getByRole('button', { name: 'Restore' }).click();
      await page.getByText('Restored.').waitFor();
      await unseal();
      await until(async () => (await server.api('GET', 'secret/data/a'))['data']?.data?.k === 'before', 'what was there is there again');
      // What is no snapshot is refused in the server's words.
      await one.go('/ui/');
      await one.go('/ui/snapshots');
      await page.locator('input[type=file]').setInputFiles({ name: 'no.snap', mimeType: 'application/octet-stream', buffer: Buffer.from('nothing of the kind') });
      await page.getByRole('button', { name: 'Check' }).click();
      await page.locator('.note.bad').waitFor();
      await one.finish();
    } finally { server.stop(); }
  } },
  { name: 'people: two entities are merged, a group is made and changed; a root token is made by its shares', run: async ({ browser, dev }) => {
    const { data: accessors } = await dev.must('GET', 'sys/auth');
    const accessor = accessors['userpass/'].accessor as string;
    const make = async (name: string): Promise<string> => ((await dev.must('POST', 'identity/entity', { name, metadata: { team: name } }))['data'].id as string);
    const [keeps, goes] = [await make('grace-hopper'), await make('grace-old')];
    await dev.must('POST', 'identity/entity-alias', { name: 'gracie', canonical_id: goes, mount_accessor: accessor });
    const one = await Watched.open(browser, dev);
    const { page } = one;
    await one.login('ops');
    await one.go(`/ui/people/entities/${keeps}`);
    await page.getByRole('button', { name: 'Merge' }).click();
    await page.getByLabel('Who is the same person or app?').fill('grace-old');
    await page.getByRole('button', { name: /grace-old/ }).click();
    await page.getByText('Two logins of the same mount are refused.').waitFor();
    await page.getByText('1 login: gracie (auth/userpass/)').waitFor();
    await one.axe();
    await page.getByRole('dialog').getByRole('button', { name: 'Merge' }).click();
    await page.getByText('grace-old is merged').waitFor();
    await page.locator('main').getByText('gracie').waitFor();
    equal((await dev.api('GET', `identity/entity/id/${goes}`))['status'], 404, 'the other is gone');
    await one.go('/ui/people/groups/');
    await page.getByRole('button', { name: 'New group' }).first().click();
    await page.getByLabel('Name').fill('compilers');
    await page.getByLabel('Policies, with commas').fill('reader');
    await page.getByLabel('Find members').fill('grace');
    await page.getByRole('checkbox', { name: 'grace-hopper' }).check();
    await one.axe();
    await page.getByRole('button', { name: 'Make it' }).click();
    await page.getByRole('heading', { name: 'compilers' }).waitFor();
    await page.getByRole('button', { name: 'Change' }).click();
    await page.getByLabel('Policies, with commas').fill('reader, writer');
    await page.getByRole('button', { name: 'Save', exact: true }).click();
    await page.getByRole('link', { name: 'writer' }).waitFor();
    const { data: group } = await dev.must('GET', 'identity/group/name/compilers');
    equal([group.policies, group.member_entity_ids], [['reader', 'writer'], [keeps]], 'stored');
    await one.finish();
    await dev.must('DELETE', 'identity/group/name/compilers');
    // A root token, by the shares of a server of its own.
    const server = await Server.durable();
    try {
      const made = await server.must('PUT', 'sys/init', { secret_shares: 2, secret_threshold: 2 }, '');
      const shares = made['keys_base64'] as string[];
      server.token = made['root_token'] as string;
      for (const share of shares) await server.must('PUT', 'sys/unseal', { key: share }, '');
      await until(async () => (await server.api('GET', 'sys/mounts'))['status'] === 200, 'the server answers');
      await server.must('PUT', 'sys/policies/acl/admin', { policy: 'path "*" { capabilities = ["create", "read", "update", "patch", "delete", "list", "sudo"] }' });
      await server.must('POST', 'sys/auth/userpass', { type: 'userpass', description: 'People', config: { listing_visibility: 'unauth' } });
      await server.must('POST', 'auth/userpass/users/ops', { password: 'correct horse battery', token_policies: ['admin'] });
      const two = await Watched.open(browser, server);
      await two.login('ops');
      await two.go('/ui/settings/seal');
      await two.page.getByRole('button', { name: 'Begin' }).last().click();
      for (const [i, share] of shares.entries()) {
        await two.page.getByText(`Under way: ${i} of 2 shares.`).waitFor();
        await two.page.getByLabel('A share for the root token').fill(share);
        await two.page.getByRole('button', { name: 'Give' }).last().click();
      }
      await two.page.getByRole('heading', { name: 'The root token' }).waitFor();
      await two.page.getByRole('button', { name: 'Copy' }).click();
      const token = await two.page.evaluate(() => navigator.clipboard.readText());
      equal((await server.must('GET', 'auth/token/lookup-self', undefined, token))['data'].policies, ['root'], 'it is one');
      await two.page.getByRole('button', { name: 'It is stored' }).click();
      await two.finish();
    } finally { server.stop(); }
  } },
];
