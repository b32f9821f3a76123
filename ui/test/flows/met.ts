// What people met: values, spellings, orders of events and states of real use that once went wrong.
import { equal, ok, until } from '../assert.ts';
import { Watched } from '../browser.ts';
import { Server } from '../server.ts';
import type { Flow, World } from './index.ts';

export const met: Flow[] = [];
const PASSWORD = 'correct horse battery';
const REFUSED = { status: 400, contentType: 'application/json', body: '{"errors":["not now"]}' };

/** A flow of somebody who may do everything, with a mount of its own. */
function flow(name: string, run: (one: Watched, world: World) => Promise<void>): void {
  met.push({ name: `met: ${name}`, run: async (world) => {
    await mount(world.dev);
    const one = await Watched.open(world.browser, world.dev);
    await one.login('ops');
    await run(one, world);
    await one.finish();
  } });
}

/** An empty mount of version 2, as `met/`. */
async function mount(server: Server): Promise<void> {
  await server.api('DELETE', 'sys/mounts/met');
  await server.must('POST', 'sys/mounts/met', { type: 'kv', options: { version: '2' } });
  await until(async () => (await server.api('POST', 'met/config', { max_versions: 0 }))['status'] < 300, 'the mount is there');
}

/** A list of one secret, in which keys have moved to it. */
async function moveToFirstRow(one: Watched, dev: Server): Promise<void> {
  await dev.must('POST', 'met/data/a', { data: { k: 'v' } });
  await one.go('/ui/s/met/');
  await one.page.getByRole('option', { name: /^a/ }).waitFor();
  await one.page.keyboard.press('j');
  await one.page.locator('.rows .active').waitFor();
}

flow('where no versions are kept, a deletion says that it is for good, and offers no undo', async (one, { dev }) => {
  const { page } = one;
  await dev.api('DELETE', 'sys/mounts/met1');
  await dev.must('POST', 'sys/mounts/met1', { type: 'kv', options: { version: '1' } });
  await dev.must('POST', 'met1/a', { k: 'v' });
  const form = page.locator('form[data-form="secrets/delete"]');
  await one.go('/ui/s/met1/a');
  await page.getByRole('button', { name: 'Delete', exact: true }).click();
  await form.getByText('cannot be brought back').waitFor();
  equal(await form.getByText('undeleted').count(), 0, 'no word of undeleting');
  await form.getByLabel(/^Type/).fill('a');
  await form.getByRole('button', { name: 'Delete 1 secret for good' }).click();
  await page.locator('.toast', { hasText: 'deleted for good' }).waitFor();
  equal(await page.locator('.toast').getByRole('button', { name: 'Undo' }).count(), 0, 'no undo');
  // A cubbyhole is of one's own, and the route for many does not know it.
  await page.evaluate(async () => { const { token } = JSON.parse(sessionStorage.getItem('kallisto.session') ?? '{}') as { token: string }; await fetch('/v1/cubbyhole/mine', { method: 'POST', headers: { 'X-Vault-Token': token }, body: '{"k":"v"}' }); });
  await one.go('/ui/s/cubbyhole/mine');
  await page.getByRole('button', { name: 'Delete', exact: true }).click();
  await form.getByLabel(/^Type/).fill('mine');
  await form.getByRole('button', { name: 'Delete 1 secret for good' }).click();
  await form.waitFor({ state: 'detached' });
  equal(await page.evaluate(async () => { const { token } = JSON.parse(sessionStorage.getItem('kallisto.session') ?? '{}') as { token: string }; return (await fetch('/v1/cubbyhole/mine', { headers: { 'X-Vault-Token': token } })).status; }), 404, 'it is gone');
});

flow('a write that may have happened, and one that a full disk refuses, is not sent again by itself', async (one, { dev }) => {
  const { page } = one;
  await dev.must('POST', 'met/data/app', { data: { k: 'v' } });
  for (const words of ['the write may have happened: read before sending it again', 'the disk is full: reads go on, writes are refused']) {
    let sent = 0;
    await page.route('**/v1/met/data/app', (route) => { if (route.request().method() !== 'POST') return route.continue(); sent += 1; return route.fulfill({ ...REFUSED, status: 503, body: JSON.stringify({ errors: [words] }) }); });
    await one.go('/ui/s/met/app?tab=edit');
    await page.getByLabel('Value of k').fill('w');
    await page.getByRole('button', { name: 'Save', exact: true }).click();
    await page.getByRole('dialog').getByRole('button', { name: 'Save', exact: true }).click();
    await page.locator('.note.bad', { hasText: words }).waitFor({ timeout: 4000 });
    equal(sent, 1, 'sent once');
    await page.unroute('**/v1/met/data/app');
    await page.getByRole('button', { name: 'Cancel' }).click();
    await page.getByRole('dialog').getByRole('button', { name: 'Leave' }).click();
    await page.getByRole('button', { name: 'Reveal k', exact: true }).waitFor();
  }
});

flow('a new policy with the name of one that exists is that one, and saving shows the difference', async (one, { dev }) => {
  const { page } = one;
  await dev.must('PUT', 'sys/policies/acl/met', { policy: 'path "met/*" {\n  capabilities = ["read"]\n}\n' });
  await one.go('/ui/policies/');
  await page.getByRole('button', { name: 'New policy' }).click();
  await page.getByRole('dialog').getByLabel('Name').fill('met');
  await page.getByRole('button', { name: 'Go on' }).click();
  const text = page.getByLabel('Text of met');
  await text.waitFor();
  ok((await text.inputValue()).includes('met/*'), 'the text of the policy that is there');
  await text.fill('path "met/*" {\n  capabilities = ["list"]\n}\n');
  await page.getByRole('button', { name: 'Save', exact: true }).click();
  await page.getByRole('dialog').locator('.del').first().waitFor();
  await page.getByRole('dialog').getByRole('button', { name: 'Save' }).click();
  await until(async () => String((await dev.must('GET', 'sys/policies/acl/met'))['data'].policy).includes('list'), 'it is saved');
});

met.push({ name: 'met: a server that does not answer any more is not shown as healthy', run: async ({ browser }) => {
  const server = await Server.durable();
  try {
    const made = await server.must('PUT', 'sys/init', { secret_shares: 1, secret_threshold: 1 }, '');
    server.token = made['root_token'] as string;
    await server.must('PUT', 'sys/unseal', { key: (made['keys_base64'] as string[])[0] }, '');
    await until(async () => (await server.api('GET', 'sys/mounts'))['status'] === 200, 'the server answers');
    const one = await Watched.open(browser, server);
    const { page } = one;
    await page.goto('/ui/login');
    await page.getByLabel('Token').fill(server.token);
    await page.getByRole('button', { name: 'Sign in', exact: true }).click();
    await page.locator('.app').waitFor();
    await one.go('/ui/cluster');
    await page.locator('.rail .foot', { hasText: 'unsealed' }).waitFor();
    await page.locator('.kpi', { hasText: 'Servers' }).waitFor();
    server.child.kill('SIGKILL');
    await page.locator('.note.bad', { hasText: 'The server cannot be reached' }).waitFor({ timeout: 20_000 });
    equal(await page.getByText('live', { exact: true }).count(), 0, 'nothing is called live');
    await page.locator('.rail .foot', { hasText: 'no answer' }).waitFor();
    await one.context.close();
  } finally { server.stop(); }
} });

flow('a value that was shown goes when somebody writes the secret, and what is copied next is the new one', async (one, { dev }) => {
  const { page } = one;
  await dev.must('POST', 'met/data/app', { data: { k: 'old k', z: 'old z' } });
  await one.go('/ui/s/met/app');
  await page.getByRole('button', { name: 'Reveal k', exact: true }).click();
  await page.locator('.shown').waitFor();
  await dev.must('POST', 'met/data/app', { data: { k: 'new k', z: 'new z' } });
  await page.locator('.head', { hasText: 'v2 · current' }).waitFor();
  await page.locator('.shown').waitFor({ state: 'detached' });
  await page.getByRole('button', { name: 'Reveal z', exact: true }).click();
  equal(await page.locator('.shown').innerText(), 'new z', 'the value of the version in the heading');
});

flow('a folder named data or metadata at the root of a mount is a folder', async (one, { dev }) => {
  const { page } = one;
  for (const [path, k] of [['inner', 'at the root'], ['data/inner', 'in data'], ['metadata/inner', 'in metadata']] as const) await dev.must('POST', `met/data/${path}`, { data: { k } });
  await one.go('/ui/s/met/');
  await page.getByRole('option', { name: /^data\// }).click();
  await page.getByRole('heading', { name: 'data/', exact: true }).waitFor();
  await page.getByRole('option', { name: /inner/ }).click();
  await page.locator('.detail .path', { hasText: 'met/data/inner' }).waitFor();
  await page.getByRole('button', { name: 'Reveal k', exact: true }).click();
  equal(await page.locator('.shown').innerText(), 'in data', 'the secret in the folder');
  await one.go('/ui/s/met/metadata/');
  await page.getByRole('heading', { name: 'metadata/', exact: true }).waitFor();
  // Where there is no such folder, it is the path of the API.
  await one.go('/ui/s/met/subkeys/inner');
  await page.getByRole('button', { name: 'Reveal k', exact: true }).click();
  equal(await page.locator('.shown').innerText(), 'at the root', 'a pasted path of the API');
});

flow('the rows of a policy are its rules, however late the server has read them', async (one, { dev }) => {
  const { page } = one;
  await dev.must('PUT', 'sys/policies/acl/met-rows', { policy: 'path "met/*" {\n  capabilities = ["read"]\n}\n' });
  await page.route('**/v1/sys/policies/check', async (route) => { await new Promise((done) => setTimeout(done, 1000)); await route.continue(); });
  await one.go('/ui/policies/met-rows');
  await page.getByRole('button', { name: 'Rows', exact: true }).click();
  await page.getByRole('button', { name: 'Another rule' }).click();
  await page.getByRole('group', { name: 'Rule 2' }).waitFor();
  await page.getByRole('button', { name: 'Text', exact: true }).click();
  ok((await page.getByLabel('Text of met-rows').inputValue()).includes('met/*'), 'the rule that was there is there');
  await one.go('/ui/');
  await page.getByRole('button', { name: 'Leave', exact: true }).click();
  await page.unrouteAll({ behavior: 'ignoreErrors' });
});

met.push({ name: 'met: a second link opens in the tab of the first, and a broken one is told', run: async ({ browser, dev }) => {
  const one = await Watched.open(browser, dev);
  const { page } = one;
  await page.goto('/ui/open#hvs.nobodys');
  await page.getByText('This link opens nothing any more.').waitFor();
  const made = await fetch(`${dev.base}/v1/sys/wrapping/wrap`, { method: 'POST', headers: { 'X-Vault-Token': dev.token, 'X-Vault-Wrap-TTL': '600s' }, body: '{"told":"once"}' });
  const { wrap_info: info } = await made.json() as { wrap_info: { token: string } };
  await page.goto(`/ui/open#${info.token}`);
  await page.getByRole('button', { name: 'Open it now' }).click();
  await page.getByText('The link is used up').waitFor();
  ok(!page.url().includes(info.token), 'the token does not stay in the address');
  await page.goto('/ui/open#hvs.100%');
  await page.getByText('This link opens nothing any more.').waitFor();
  await one.finish();
} });

flow('a screen asks for the rights of all its buttons at once', async (one, { dev }) => {
  const { page } = one;
  for (let i = 0; i < 12; i += 1) await dev.must('POST', `sys/mounts/met-${i}`, { type: 'kv' });
  await page.locator('.rail').getByRole('link', { name: 'Settings' }).waitFor();
  let asked = 0;
  page.on('request', (request) => { if (request.url().includes('capabilities-self')) asked += 1; });
  await one.go('/ui/settings/mounts');
  await page.getByRole('button', { name: 'Disable met-11/' }).and(page.locator(':not([aria-disabled])')).waitFor();
  ok(asked <= 3, `${asked} questions`);
  for (let i = 0; i < 12; i += 1) await dev.must('DELETE', `sys/mounts/met-${i}`);
});

flow('a new user or group with the name of one that exists does not replace it', async (one, { dev }) => {
  const { page } = one;
  await dev.must('POST', 'auth/userpass/users/paula', { password: PASSWORD, token_policies: ['dev'] });
  await one.go('/ui/people/logins/userpass/');
  await page.getByRole('button', { name: 'New user' }).click();
  const member = page.locator('form[data-form="logins/member"]');
  await member.getByLabel('Name').fill('Paula');
  await member.getByLabel('Password').fill('another one');
  await member.getByRole('button', { name: 'Make it' }).click();
  await member.locator('.note.bad', { hasText: 'There is one with this name already' }).waitFor();
  await member.getByRole('button', { name: 'Cancel' }).click();
  await dev.must('POST', 'auth/userpass/login/paula', { password: PASSWORD }, '');
  await dev.must('POST', 'identity/group', { name: 'met-group', policies: ['dev'] });
  await one.go('/ui/people/groups/');
  await page.getByRole('button', { name: 'New group' }).click();
  const group = page.locator('form[data-form="groups/edit"]');
  await group.getByLabel('Name', { exact: true }).fill('Met-Group ');
  await group.getByRole('button', { name: 'Make it' }).click();
  await group.locator('.note.bad', { hasText: 'There is one with this name already' }).waitFor();
  equal((await dev.must('GET', 'identity/group/name/met-group'))['data'].policies as unknown, ['dev'] as unknown, 'its policies are what they were');
  await group.getByRole('button', { name: 'Cancel' }).click();
});

flow('Ctrl-S twice asks once', async (one, { dev }) => {
  const { page } = one;
  await dev.must('POST', 'met/data/a', { data: { k: 'v' } });
  await one.go('/ui/s/met/a?tab=edit');
  await page.getByLabel('Value of k').fill('w');
  await page.keyboard.press('Control+s');
  await page.getByRole('dialog').waitFor();
  await page.keyboard.press('Control+s');
  await page.waitForTimeout(200);
  equal(await page.locator('dialog[open]').count(), 1, 'one question');
  await page.getByRole('dialog').getByRole('button', { name: 'Save', exact: true }).click();
  await page.locator('.head', { hasText: 'v2 · current' }).waitFor();
  equal(await page.locator('dialog[open]').count(), 0, 'nothing is asked any more');
});

met.push({ name: 'met: keys of a place that one may not read are not called missing', run: async ({ browser, dev }) => {
  await mount(dev);
  await dev.must('POST', 'met/data/dev', { data: { k: 'v', other: 'w' } });
  await dev.must('POST', 'met/data/prod', { data: { k: 'v', other: 'w' } });
  await dev.must('PUT', 'sys/policies/acl/met-dev', { policy: 'path "met/data/dev" { capabilities = ["read"] }\npath "met/data/prod" { capabilities = ["update"] }\npath "sys/kallisto/kv/*" { capabilities = ["read", "update"] }' });
  await dev.must('POST', 'auth/userpass/users/devi', { password: PASSWORD, token_policies: ['met-dev'] });
  const one = await Watched.open(browser, dev);
  await one.login('devi');
  await one.go('/ui/compare?p=met/dev&p=met/prod');
  await one.page.getByText('not known').first().waitFor();
  equal(await one.page.getByText('missing', { exact: true }).count(), 0, 'nothing is called missing');
  equal(await one.page.getByRole('button', { name: /Copy/ }).count(), 0, 'nothing can be copied there');
  await one.finish();
} });

met.push({ name: 'met: two tabs in two namespaces hear each of its own changes', run: async ({ browser }) => {
  const server = await Server.dev();
  try {
    await server.must('POST', 'sys/namespaces/team', {});
    await server.must('POST', 'sys/mounts/secret', { type: 'kv', options: { version: '2' } }, server.token, 'team');
    await until(async () => (await server.api('POST', 'secret/data/first', { data: { k: 'v' } }, server.token, 'team'))['status'] < 300, 'the mount is there');
    await server.must('POST', 'secret/data/first', { data: { k: 'v' } });
    await server.must('PUT', 'sys/policies/acl/both', { policy: 'path "*" { capabilities = ["create", "read", "update", "patch", "delete", "list", "sudo"] }\npath "team/*" { capabilities = ["create", "read", "update", "patch", "delete", "list", "sudo"] }' });
    await server.must('POST', 'sys/auth/userpass', { type: 'userpass', description: 'People', config: { listing_visibility: 'unauth' } });
    await server.must('POST', 'auth/userpass/users/ops', { password: PASSWORD, token_policies: ['both'] });
    const one = await Watched.open(browser, server);
    await one.login('ops');
    await one.go('/ui/s/secret/');
    await one.page.getByRole('option', { name: /first/ }).waitFor();
    const other = await one.context.newPage();
    await other.goto('/ui/s/secret/?ns=team');
    await other.getByRole('option', { name: /first/ }).waitFor();
    // The streams begin after what they are about is shown.
    await until(async () => { await server.must('POST', 'secret/data/mine', { data: { k: String(Math.random()) } }); return one.page.getByRole('option', { name: /mine/ }).isVisible(); }, 'the first tab hears of its namespace');
    // A list that is read anew because of the other tab's change would have them too.
    await other.waitForTimeout(1500);
    await until(async () => { await server.must('POST', 'secret/data/theirs', { data: { k: String(Math.random()) } }, server.token, 'team'); return other.getByRole('option', { name: /theirs/ }).isVisible(); }, 'the second tab hears of its own');
    equal(await one.page.getByRole('option').count(), 2, 'the first tab has its own names');
    await one.finish();
  } finally { server.stop(); }
} });

met.push({ name: 'met: who may not read metadata writes a deleted secret anew', run: async ({ browser, dev }) => {
  await mount(dev);
  await dev.must('PUT', 'sys/policies/acl/met-data', { policy: 'path "met/data/*" { capabilities = ["create", "read", "update"] }' });
  await dev.must('POST', 'auth/userpass/users/dora', { password: PASSWORD, token_policies: ['met-data'] });
  await dev.must('POST', 'met/data/gone', { data: { k: 'v' } });
  await dev.must('DELETE', 'met/data/gone');
  const one = await Watched.open(browser, dev);
  const { page } = one;
  await one.login('dora');
  await one.go('/ui/s/met/gone?tab=edit');
  await page.getByLabel('Key', { exact: true }).fill('k');
  await page.getByLabel('Value of k').fill('anew');
  await page.getByRole('button', { name: 'Save', exact: true }).click();
  await page.getByRole('dialog').getByRole('button', { name: 'Save', exact: true }).click();
  await until(async () => (await dev.api('GET', 'met/data/gone'))['data']?.data?.k === 'anew', 'it is written');
  await page.locator('.note.bad').waitFor({ state: 'detached' });
  await one.finish();
} });

met.push({ name: 'met: a share that did not reach the server, or has a wrong form, is not called wrong', run: async ({ browser }) => {
  const server = await Server.durable();
  try {
    const made = await server.must('PUT', 'sys/init', { secret_shares: 3, secret_threshold: 2 }, '');
    const keys = made['keys_base64'] as string[];
    await server.must('PUT', 'sys/unseal', { key: keys[0] }, '');
    const one = await Watched.open(browser, server);
    const { page } = one;
    await page.goto('/ui/unseal');
    await page.getByText('1 of 2').first().waitFor();
    await page.route('**/v1/sys/unseal', (route) => route.fulfill({ status: 502, contentType: 'text/html', body: '<html>' }));
    await page.getByLabel('Your share').fill(keys[1] ?? '');
    await page.getByRole('button', { name: 'Enter the share' }).click();
    await page.locator('.note.bad').waitFor();
    ok((await page.locator('.note.bad').innerText()).includes('502'), await page.locator('.note.bad').innerText());
    await page.unroute('**/v1/sys/unseal');
    await page.getByLabel('Your share').fill(keys[1] ?? '');
    await page.getByRole('button', { name: 'Enter the share' }).click();
    await page.waitForURL(/login/);
    await one.finish();
  } finally { server.stop(); }
} });

met.push({ name: 'met: an answer that is cut in the middle is asked for again', run: async ({ browser, dev }) => {
  const one = await Watched.open(browser, dev);
  await one.page.addInitScript(() => {
    const whole = Response.prototype.text;
    let isCut = false;
    Response.prototype.text = function text(this: Response) {
      if (!isCut && this.url.endsWith('/v1/sys/seal-status')) { isCut = true; return Promise.reject(new TypeError('network error')); }
      return whole.call(this);
    };
  });
  await one.login('ops');
  await one.finish();
} });

met.push({ name: 'met: too many tries of a login are told at once', run: async ({ browser, dev }) => {
  const one = await Watched.open(browser, dev);
  const { page } = one;
  let tries = 0;
  await page.route('**/v1/auth/userpass/login/*', (route) => { tries += 1; return route.fulfill({ ...REFUSED, status: 429, headers: { 'Retry-After': '60' }, body: '{"errors":["too many wrong tries: try again in 60 seconds"]}' }); });
  await page.goto('/ui/login');
  await page.getByRole('button', { name: 'People' }).click();
  await page.getByLabel('User name').fill('ada');
  await page.getByLabel('Password').fill('a guess');
  await page.getByRole('button', { name: 'Sign in', exact: true }).click();
  await page.locator('.note.bad', { hasText: 'Too many tries' }).waitFor({ timeout: 4000 });
  equal(tries, 1, 'sent once');
  await one.finish();
} });

flow('an undelete that is refused is told', async (one, { dev }) => {
  const { page } = one;
  await dev.must('POST', 'met/data/gone', { data: { k: 'v' } });
  await dev.must('DELETE', 'met/data/gone');
  await page.route('**/v1/met/undelete/**', (route) => route.fulfill(REFUSED));
  await one.go('/ui/s/met/gone');
  await page.getByRole('button', { name: 'Undelete' }).click();
  await page.locator('.note.bad', { hasText: 'not now' }).waitFor();
});

flow('what is shared is the version in view', async (one, { dev }) => {
  const { page } = one;
  for (const k of ['first', 'second']) await dev.must('POST', 'met/data/app', { data: { k } });
  await one.go('/ui/s/met/app?v=1');
  await page.getByRole('button', { name: 'Share once' }).click();
  await page.getByRole('button', { name: 'Make the link' }).click();
  const link = await page.locator('.link-box code').innerText();
  const shared = await dev.must('POST', 'sys/wrapping/unwrap', {}, link.slice(link.indexOf('#') + 1));
  equal(shared['data'].data.k, 'first', 'the version of the address');
  await page.getByRole('button', { name: 'Done' }).click();
});

flow('a secret with metadata and no version says so', async (one, { dev }) => {
  const { page } = one;
  await dev.must('POST', 'met/metadata/bare', { custom_metadata: { owner: 'ada' } });
  await one.go('/ui/s/met/bare');
  await page.getByText('No version yet').waitFor();
  equal(await page.getByText('this token may not ask for names alone').count(), 0, 'no right is missing');
  await page.getByRole('link', { name: 'Write the first one' }).click();
  await page.getByLabel('Key', { exact: true }).fill('k');
  await page.getByLabel('Value of k').fill('v');
  await page.getByRole('button', { name: 'Save', exact: true }).click();
  await page.getByRole('dialog').getByRole('button', { name: 'Save', exact: true }).click();
  await page.locator('.head', { hasText: 'v1 · current' }).waitFor();
  // An address of a version that is not kept, or deleted, says that too.
  await one.go('/ui/s/met/bare?v=9');
  await page.getByText('There is no version 9').waitFor();
  await dev.must('POST', 'met/delete/bare', { versions: [1] });
  await dev.must('POST', 'met/data/bare', { data: { k: 'w' } });
  await one.go('/ui/s/met/bare?v=1');
  await page.getByText('Version 1 is deleted').waitFor();
});

flow('what is pinned in one tab stays pinned when another tab pins something', async (one, { dev }) => {
  const { page } = one;
  await dev.must('POST', 'met/data/a', { data: { k: 'v' } });
  await dev.must('POST', 'met/data/b', { data: { k: 'v' } });
  await one.go('/ui/s/met/a');
  const other = await one.context.newPage();
  await other.goto('/ui/s/met/b');
  await other.getByRole('button', { name: 'Pin to home' }).waitFor();
  await page.getByRole('button', { name: 'Pin to home' }).click();
  await page.getByRole('button', { name: 'Unpin' }).waitFor();
  await other.getByRole('button', { name: 'Pin to home' }).click();
  await other.getByRole('button', { name: 'Unpin' }).waitFor();
  equal(await page.evaluate(() => localStorage.getItem('kallisto.pinned')), '["\\nmet/a","\\nmet/b"]', 'both are pinned');
  await one.go('/ui/');
  await page.locator('.card', { hasText: 'Pinned' }).getByText('met/b').waitFor();
});

flow('a version that is deleted by itself some day is not deleted yet', async (one, { dev }) => {
  const { page } = one;
  await dev.must('POST', 'met/metadata/ages', { delete_version_after: '720h' });
  await dev.must('POST', 'met/data/ages', { data: { k: 'v' } });
  await one.go('/ui/s/met/');
  const row = page.getByRole('option', { name: /ages/ });
  await row.getByText('v1').waitFor();
  await until(async () => { await dev.must('POST', 'met/data/ages', { data: { k: String(Math.random()) } }); return row.getByText('now').isVisible(); }, 'the change is heard');
  await until(async () => /v\d|deleted/.test((await row.innerText()).replace('v1', '')), 'its version is shown');
  ok(!(await row.innerText()).includes('deleted'), await row.innerText());
});

met.push({ name: 'met: all children of a token can be seen, not the first hundred', run: async ({ browser }) => {
  const server = await Server.dev();
  try {
    await server.must('PUT', 'sys/policies/acl/admin', { policy: 'path "*" { capabilities = ["create", "read", "update", "patch", "delete", "list", "sudo"] }' });
    const { auth } = await server.must('POST', 'auth/token/create-orphan', { policies: ['admin'], display_name: 'mother' });
    for (let i = 0; i < 130; i += 1) await server.must('POST', 'auth/token/create', { policies: ['default'], display_name: 'kid' }, auth.client_token as string);
    const one = await Watched.open(browser, server);
    await one.page.goto('/ui/login');
    await one.page.getByLabel('Token').fill('root');
    await one.page.getByRole('button', { name: 'Sign in', exact: true }).click();
    await one.page.locator('.app').waitFor();
    await one.go('/ui/tokens/');
    await one.page.getByRole('button', { name: 'Open 130 children' }).click();
    const kids = one.page.getByRole('row', { name: /token-kid/ });
    await until(async () => (await kids.count()) >= 100, 'the first page');
    await one.page.getByRole('button', { name: 'More', exact: true }).click();
    await until(async () => (await kids.count()) === 130, 'the others');
    await one.finish();
  } finally { server.stop(); }
} });

flow('a pasted address leads to its secret: a path of the API, a whole one, and one of this page', async (one, { dev }) => {
  const { page } = one;
  await dev.must('POST', 'met/data/odd/a%25b%3Fc%23d%20e%2Bf', { data: { k: 'v' } });
  const there = page.locator('.detail .path', { hasText: 'met/odd/a%b?c#d e+f' });
  const encoded = 'odd/a%25b%3Fc%23d%20e%2Bf';
  for (const text of ['/v1/met/data/odd/a%b?c#d e+f', 'v1/met/data/odd/a%b?c#d e+f', `${dev.base}/v1/met/data/${encoded}`, `${dev.base}/ui/s/met/${encoded}?tab=history`, '/met/odd/a%b?c#d e+f']) {
    await one.go('/ui/s/');
    await page.getByLabel('Go to a path').fill(text);
    await page.keyboard.press('Enter');
    await there.waitFor({ timeout: 5000 }).catch(() => { throw new Error(`${text} leads to ${page.url()}`); });
  }
  await one.go('/ui/s/');
  await page.keyboard.press('Control+k');
  await page.getByRole('combobox', { name: 'Search everything' }).fill(`${dev.base}/v1/met/data/${encoded}`);
  await page.getByRole('option', { name: /^Go to/ }).click();
  await there.waitFor();
});

flow('a banner may be a warning or an alarm, and looks like one', async (one, { dev }) => {
  const { page } = one;
  const form = page.locator('form[data-form="settings/page"]');
  await one.go('/ui/settings/browser');
  try {
    for (const [label, kind] of [['alarm', 'bad'], ['warning', 'warn']] as const) {
      await form.getByLabel('Banner').fill(`an ${label}`);
      await form.getByLabel('Level').selectOption({ label });
      await form.getByRole('button', { name: 'Save' }).click();
      await page.locator(`main .banner.${kind}`, { hasText: `an ${label}` }).waitFor();
    }
  } finally { await dev.must('POST', 'sys/config/ui/settings', { banner: null }); }
});

met.push({ name: 'met: saving the settings of the page keeps when its banner ends', run: async ({ browser, dev }) => {
  const until_ = new Date(Date.now() + 3_600_000).toISOString();
  await dev.must('POST', 'sys/config/ui/settings', { banner: { text: 'maintenance', level: 'warn', until: until_ } });
  try {
    const one = await Watched.open(browser, dev);
    await one.login('ops');
    await one.go('/ui/settings/browser');
    await one.page.locator('form[data-form="settings/page"]').getByRole('button', { name: 'Save' }).click();
    await one.page.getByText('Saved for everybody').waitFor();
    ok((await dev.must('GET', 'sys/internal/ui/config'))['data'].banner?.until, 'the end of the banner');
    await one.finish();
  } finally { await dev.must('POST', 'sys/config/ui/settings', { banner: null }); }
} });

flow('what is typed right after Ctrl-K is in its field', async (one) => {
  const { page } = one;
  await page.locator('header.top').waitFor();
  const focused = await page.evaluate(async () => {
    window.dispatchEvent(new KeyboardEvent('keydown', { key: 'k', ctrlKey: true, bubbles: true, cancelable: true }));
    // The next key comes as a task of its own, however soon, and does not wait for a frame to be drawn.
    await new Promise((done) => { const pipe = new MessageChannel(); pipe.port1.onmessage = done; pipe.port2.postMessage(1); });
    return document.activeElement?.tagName;
  });
  equal(focused, 'INPUT', 'the field has the focus');
  await page.keyboard.press('Escape');
});

flow('a file to share that is no text is kept as base64, and one that is too large is told', async (one) => {
  const { page } = one;
  await one.go('/ui/shared');
  await page.getByRole('button', { name: 'Share a text' }).first().click();
  const form = page.locator('form[data-form="share"]');
  await form.locator('input[type=file]').setInputFiles({ name: 'key.p12', mimeType: 'application/octet-stream', buffer: Buffer.from([0x30, 0x82, 0xff, 0xfe, 0x00]) });
  await until(async () => (await form.getByLabel('Text', { exact: true }).inputValue()) === 'MIL//gA=', 'its bytes as base64');
  await form.locator('input[type=file]').setInputFiles({ name: 'large.bin', mimeType: 'application/octet-stream', buffer: Buffer.alloc(600_000, 65) });
  await page.locator('.toast', { hasText: 'large.bin' }).waitFor();
  await form.getByRole('button', { name: 'Cancel' }).click();
});

flow('JSON of a new secret that is not finished is not left without a question', async (one) => {
  const { page } = one;
  await one.go('/ui/s/met/fresh?tab=edit');
  await page.getByRole('button', { name: 'JSON', exact: true }).click();
  await page.getByLabel('JSON of the secret').fill('{"half":');
  await page.getByText('the text ends too early').first().waitFor();
  await one.go('/ui/');
  await page.getByRole('dialog').getByRole('button', { name: 'Leave' }).click();
  await page.getByRole('heading', { name: /Hello/ }).waitFor();
});

flow('the page of a proxy in the place of an answer is told by its status', async (one) => {
  const { page } = one;
  await page.route('**/v1/sys/storage/raft/snapshot*', (route) => route.fulfill({ status: 413, contentType: 'text/html', body: '<html>too large</html>' }));
  await one.go('/ui/snapshots');
  await page.getByRole('button', { name: 'Save a snapshot' }).click();
  await page.locator('.note.bad', { hasText: 'The server answered 413' }).waitFor();
});

flow('a search by a time that is none says so, and a date is one', async (one, { dev }) => {
  const { page } = one;
  await dev.must('POST', 'met/data/soon', { data: { k: 'v' } });
  await dev.must('POST', 'met/metadata/soon', { custom_metadata: { due: '2020-01-01' } });
  await dev.must('POST', 'met/data/never', { data: { k: 'v' } });
  await one.go('/ui/find?q=due:2021-01-01 in:met/');
  await page.locator('main .links', { hasText: 'met/soon' }).waitFor();
  equal(await page.locator('main .links li').count(), 1, 'only what is due');
  await one.go('/ui/find?q=due:soon in:met/');
  await page.getByText('is no time').waitFor();
});

flow('the way home from a refusal stays in its namespace', async (one) => {
  const { page } = one;
  await one.go('/ui/s/nowhere/x?ns=team');
  const home = page.locator('.refusal').getByRole('link', { name: 'Home' });
  await home.waitFor();
  equal(await home.getAttribute('href'), '/ui/?ns=team', 'where it leads');
  await one.go('/ui/');
});

met.push({ name: 'met: commands for a secret name its namespace, and are quoted for a shell', run: async ({ browser }) => {
  const server = await Server.dev();
  try {
    await server.must('POST', 'sys/namespaces/team', {});
    await server.must('POST', 'sys/mounts/met', { type: 'kv', options: { version: '2' } }, server.token, 'team');
    await until(async () => (await server.api('POST', "met/data/it's%20(one)", { data: { k: 'v' } }, server.token, 'team'))['status'] < 300, 'the mount is there');
    const one = await Watched.open(browser, server);
    await one.page.goto('/ui/login');
    await one.page.getByLabel('Token').fill('root');
    await one.page.getByRole('button', { name: 'Sign in', exact: true }).click();
    await one.page.locator('.app').waitFor();
    await one.go("/ui/s/met/it's%20(one)?tab=use&ns=team");
    const card = (title: string): Promise<string> => one.page.locator('.card').filter({ has: one.page.getByRole('heading', { name: title, exact: true }) }).locator('code').innerText();
    ok((await card('.env')).includes('-namespace=team'), await card('.env'));
    ok((await card('Node.js')).includes("'X-Vault-Namespace': \"team\""), await card('Node.js'));
    ok((await card('curl')).includes(`'${server.base}/v1/met/data/it'\\''s%20(one)'`), await card('curl'));
    await one.finish();
  } finally { server.stop(); }
} });

met.push({ name: 'met: a session that cannot be made longer says so', run: async ({ browser, dev }) => {
  await dev.must('POST', 'auth/userpass/users/flash', { password: PASSWORD, token_policies: ['default'], token_ttl: '16s' });
  const one = await Watched.open(browser, dev);
  const { page } = one;
  await one.login('flash');
  await page.route('**/v1/auth/token/renew-self', (route) => route.fulfill(REFUSED));
  await page.getByRole('button', { name: 'Stay signed in' }).click({ timeout: 20_000 });
  await page.locator('.toast', { hasText: 'not now' }).waitFor();
  await one.finish();
} });

flow('home says why the state of the cluster is not known', async (one) => {
  const { page } = one;
  await page.getByText('in memory, or alone').waitFor();
  await page.route('**/v1/sys/storage/raft/autopilot/state', (route) => route.fulfill({ ...REFUSED, status: 503, body: '{"errors":["no server leads: send the request again"]}' }));
  await one.go('/ui/s/');
  await page.getByRole('heading', { name: 'Secrets' }).waitFor();
  await one.go('/ui/');
  await page.locator('.card', { hasText: 'The server' }).getByText('no server leads').waitFor();
});

flow('a key on another screen does not open a row of a list that is gone', async (one, { dev }) => {
  const { page } = one;
  await moveToFirstRow(one, dev);
  await one.go('/ui/policies/');
  await page.getByRole('heading', { name: 'Policies' }).waitFor();
  await page.evaluate(() => (document.activeElement as HTMLElement | null)?.blur());
  await page.keyboard.press('Enter');
  await page.waitForTimeout(300);
  ok(page.url().endsWith('/ui/policies/'), page.url());
});

flow('keys that come faster than frames do what was meant by them', async (one, { dev }) => {
  const { page } = one;
  for (const name of ['a', 'b', 'c']) await dev.must('POST', `met/data/${name}`, { data: { k: 'v' } });
  await one.go('/ui/s/met/');
  await page.getByRole('option', { name: /^c/ }).waitFor();
  // In one task of the browser: what renders at once has rendered between two keys, and no frame has come.
  await page.evaluate(async () => {
    for (const key of ['j', 'j', 'Enter']) {
      (document.activeElement ?? document.body).dispatchEvent(new KeyboardEvent('keydown', { key, bubbles: true, cancelable: true }));
      for (let turn = 0; turn < 200; turn++) await Promise.resolve();
    }
  });
  await page.locator('.head', { hasText: 'v1 · current' }).waitFor();
  ok(page.url().endsWith('/ui/s/met/b'), page.url());
  // What is saved is what stands in the field.
  await one.go('/ui/s/met/b?tab=edit');
  await page.getByLabel('Value of k').fill('first');
  await page.waitForTimeout(300);
  await page.getByLabel('Value of k').evaluate(async (field: HTMLInputElement) => {
    field.value = 'last';
    field.dispatchEvent(new Event('input', { bubbles: true }));
    for (let turn = 0; turn < 200; turn++) await Promise.resolve();
    field.dispatchEvent(new KeyboardEvent('keydown', { key: 's', ctrlKey: true, bubbles: true, cancelable: true }));
  });
  await page.getByRole('dialog').getByRole('button', { name: 'Save', exact: true }).click();
  await page.locator('.head', { hasText: 'v2 · current' }).waitFor();
  equal((await dev.must('GET', 'met/data/b'))['data'].data.k, 'last', 'the last that was typed');
});

flow('a key right after a move is for the screen that is there', async (one, { dev }) => {
  const { page } = one;
  await moveToFirstRow(one, dev);
  await page.waitForTimeout(300);
  // As soon as the list is gone from the document, and before the next frame.
  await page.evaluate(() => {
    const seen = new MutationObserver(() => {
      if (document.querySelector('.rows .active')) return;
      seen.disconnect();
      for (const key of ['Enter', 'n']) document.body.dispatchEvent(new KeyboardEvent('keydown', { key, bubbles: true, cancelable: true }));
    });
    seen.observe(document.body, { childList: true, subtree: true });
    document.querySelector<HTMLElement>('a[href="/ui/policies/"]')?.click();
  });
  await page.getByRole('heading', { name: 'Policies' }).waitFor();
  await page.waitForTimeout(300);
  ok(page.url().endsWith('/ui/policies/'), page.url());
  equal(await page.locator('dialog[open]').count(), 0, 'no dialog of the screen before');
});

flow('a key without a name is revealed like others', async (one, { dev }) => {
  const { page } = one;
  await dev.must('POST', 'met/data/nameless', { data: { '': 'of no key', k: 'v', one: { inside: 1 } } });
  await one.go('/ui/s/met/nameless');
  const row = page.locator('table.values tbody tr').first();
  await row.getByText('empty').waitFor();
  await row.getByRole('button', { name: 'Reveal' }).click();
  await row.getByText('of no key').waitFor();
  await page.getByText('1 key inside').waitFor();
});

flow('an address without a screen is no refusal of the server', async (one) => {
  const { page } = one;
  await one.go('/ui/nosuch');
  await page.getByRole('heading', { name: 'There is nothing here' }).waitFor();
  await page.getByText('No screen of this page has this address.').waitFor();
  equal(await page.getByText('The server refused').count(), 0, 'the server was not asked');
});
