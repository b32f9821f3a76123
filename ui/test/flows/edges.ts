// Flows 28 and 30: keyboard only, narrow, zoomed, dark, reduced motion, right-to-left; rights that change while signed in.
import { generateKeyPairSync } from 'node:crypto';
import { Watched } from '../browser.ts';
import { equal, ok, until } from '../assert.ts';
import { Server } from '../server.ts';
import type { Flow } from './index.ts';

export const edges: Flow[] = [
  { name: '28 by keyboard alone: sign in, go, filter, open, reveal, copy, edit, save', run: async ({ browser, dev }) => {
    await dev.must('POST', 'secret/data/keys/alpha', { data: { K: 'v' } });
    await dev.must('POST', 'secret/data/keys/beta', { data: { K: 'v' } });
    const one = await Watched.open(browser, dev);
    const { page } = one;
    const { keyboard } = page;
    await page.goto('/ui/login?with=userpass&to=/ui/s/secret/keys/');
    await page.getByLabel('User name').waitFor();
    await page.waitForFunction(() => document.activeElement?.matches('input'));
    await keyboard.type('ops');
    await keyboard.press('Tab');
    await keyboard.type('correct horse battery');
    await keyboard.press('Enter');
    await page.getByRole('option', { name: 'beta' }).waitFor();
    await keyboard.press('/');
    await keyboard.type('bet');
    await page.getByRole('option', { name: 'alpha' }).waitFor({ state: 'detached' });
    await keyboard.press('ArrowDown');
    await keyboard.press('ArrowDown');
    await keyboard.press('Enter');
    await page.getByRole('heading', { name: 'beta' }).waitFor();
    await keyboard.press('r');
    await page.locator('.shown').waitFor();
    await keyboard.press('e');
    await page.getByLabel('Value of K').waitFor();
    await page.getByLabel('Value of K').focus();
    await keyboard.press('Control+a');
    await keyboard.type('typed');
    await keyboard.press('Control+s');
    await page.getByText('Save 1 change?').waitFor();
    await keyboard.press('Enter');
    await page.getByText('Saved', { exact: true }).waitFor();
    equal((await dev.must('GET', 'secret/data/keys/beta'))['data'].data.K, 'typed', 'saved');
    await keyboard.press('?');
    await page.getByRole('dialog').getByRole('heading', { name: 'Keys' }).waitFor();
    await keyboard.press('Escape');
    await one.finish();
  } },
  { name: '28 narrow, zoomed, dark, reduced motion, right-to-left: nothing is cut off sideways', run: async ({ browser, dev }) => {
    for (const options of [{ phone: true }, { phone: true, dark: true }, { dark: true, reduced: true }] as const) {
      const one = await Watched.open(browser, dev, options);
      await one.login('ada');
      for (const path of ['/ui/', '/ui/s/', '/ui/s/secret/apps/payments/', '/ui/s/secret/apps/payments/stripe', '/ui/s/secret/apps/payments/stripe?tab=history', '/ui/s/secret/apps/payments/stripe?tab=edit', '/ui/shared']) {
        await one.go(path);
        await one.page.waitForTimeout(350);
        const wide = await one.page.evaluate(() => document.documentElement.scrollWidth - innerWidth);
        ok(wide <= 0, `${path} is ${wide} px too wide`);
        await one.axe();
      }
      await one.finish();
    }
    const two = await Watched.open(browser, dev);
    await two.login('ada');
    await two.page.setViewportSize({ width: 720, height: 450 });
    await two.go('/ui/s/secret/apps/payments/stripe');
    await two.page.getByRole('button', { name: 'Reveal API_KEY' }).waitFor();
    await two.page.evaluate(() => { document.documentElement.dir = 'rtl'; });
    ok((await two.page.evaluate(() => document.documentElement.scrollWidth - innerWidth)) <= 0, 'right-to-left fits');
    await two.finish();
  } },
  { name: '30 rights that change while signed in show at the next screen', run: async ({ browser, dev }) => {
    await dev.must('PUT', 'sys/policies/acl/change', { policy: 'path "secret/data/keys/*" { capabilities = ["read"] }\npath "secret/subkeys/keys/*" { capabilities = ["read"] }' });
    await dev.must('POST', 'auth/userpass/users/cara', { password: 'correct horse battery', token_policies: ['change'] });
    const one = await Watched.open(browser, dev);
    await one.login('cara');
    await one.go('/ui/s/secret/keys/alpha');
    await one.page.getByRole('button', { name: 'Reveal K' }).waitFor();
    await dev.must('PUT', 'sys/policies/acl/change', { policy: '# nothing' });
    await one.page.getByRole('button', { name: 'Reveal K' }).click();
    await one.page.getByText('No right:').waitFor();
    await one.finish();
  } },
  { name: 'edges: a pasted address of this page leads to its namespace', run: async ({ browser, dev }) => {
    await dev.api('POST', 'sys/namespaces/edge', {});
    await dev.api('POST', 'edge/sys/mounts/met', { type: 'kv', options: { version: '2' } });
    await until(async () => (await dev.api('POST', 'edge/met/data/a', { data: { k: 'v' } }))['status'] < 300, 'the mount is there');
    const one = await Watched.open(browser, dev);
    const { page } = one;
    await one.login('ops');
    for (const [from, text, ns] of [['', '/ui/s/met/a?v=1&ns=edge#x', 'edge'], ['edge', '/ui/s/met/a', null], ['edge', '/v1/met/data/a', 'edge']] as const) {
      await one.go(`/ui/s/${from && `?ns=${from}`}`);
      await page.getByLabel('Go to a path').fill(dev.base + text);
      await page.keyboard.press('Enter');
      await page.waitForURL((url) => url.pathname.startsWith('/ui/s/met/'));
      equal(new URL(page.url()).searchParams.get('ns'), ns, `${text} leads to ${page.url()}`);
    }
    await one.context.close();
  } },
  { name: 'edges: somebody locked out in a namespace below is unlocked there', run: async ({ browser, dev }) => {
    const one = await Watched.open(browser, dev);
    const { page } = one;
    await one.login('ops');
    const mounts = (name: string): object[] => [{ mount_accessor: `accessor_${name}`, counts: 1, alias_identifiers: [name] }];
    await page.route('**/v1/sys/locked-users', (route) => route.fulfill({ json: { data: { total: 2, by_namespace: [{ namespace_path: '', mount_accessors: mounts('here') }, { namespace_path: 'team/kid/', mount_accessors: mounts('below') }] } } }));
    const asked: string[] = [];
    await page.route('**/v1/sys/locked-users/**', (route) => { asked.push(`${new URL(route.request().url()).pathname} ${route.request().headers()['x-vault-namespace'] ?? ''}`); return route.fulfill({ status: 204 }); });
    await one.go('/ui/people/locked');
    for (const name of ['here', 'below']) await page.getByRole('row', { name: new RegExp(name) }).getByRole('button', { name: 'Unlock' }).click();
    await until(async () => asked.length === 2, 'both are asked for');
    equal(asked.join(), '/v1/sys/locked-users/accessor_here/unlock/here ,/v1/sys/locked-users/accessor_below/unlock/below team/kid', 'each in its namespace');
    await one.finish();
  } },
  { name: 'edges: a shared link is looked at where the browser keeps nothing', run: async ({ browser, dev }) => {
    const one = await Watched.open(browser, dev);
    await one.page.addInitScript(() => Object.defineProperty(window, 'localStorage', { get: () => { throw new DOMException('denied', 'SecurityError'); } }));
    await one.page.goto('/ui/open#hvs.none');
    await one.page.getByText('opens nothing any more').waitFor({ timeout: 5000 });
    await one.context.close();
  } },
  { name: 'edges: values of a second link in the tab of the first are hidden at first', run: async ({ browser, dev }) => {
    const one = await Watched.open(browser, dev);
    const { page } = one;
    for (const value of ['first', 'second']) {
      const made = await fetch(`${dev.base}/v1/sys/wrapping/wrap`, { method: 'POST', headers: { 'X-Vault-Token': dev.token, 'X-Vault-Wrap-TTL': '600s' }, body: JSON.stringify({ value }) });
      await page.goto(`/ui/open#${(await made.json() as { wrap_info: { token: string } }).wrap_info.token}`);
      await page.getByRole('button', { name: 'Open it now' }).click();
      await page.getByText('The link is used up').waitFor();
      equal(await page.locator('.shown').count(), 0, `${value} is hidden`);
      await page.getByRole('button', { name: 'Show', exact: true }).click();
      await page.locator('.shown', { hasText: value }).waitFor();
    }
    await one.finish();
  } },
  { name: 'edges: lines of a pasted value stay lines, and typing goes on where a value becomes long', run: async ({ browser, dev }) => {
    const one = await Watched.open(browser, dev);
    const { page } = one;
    await one.login('ops');
    await one.go('/ui/s/secret/edges/pasted?tab=edit');
    await page.getByLabel('Key', { exact: true }).fill('PEM');
    const value = page.getByLabel('Value of PEM');
    await value.fill('[]');
    await value.press('Home');
    await page.keyboard.press('ArrowRight');
    await page.evaluate(() => navigator.clipboard.writeText('-----BEGIN X-----\r\nAAAA\nBBBB\n-----END X-----\n'));
    await page.keyboard.press('Control+v');
    equal(await value.inputValue(), '[-----BEGIN X-----\nAAAA\nBBBB\n-----END X-----\n]', 'each line stays');
    await page.keyboard.type('!');
    ok((await value.inputValue()).endsWith('\n!]'), 'the caret is behind what was pasted');
    await page.getByRole('button', { name: 'Another key' }).click();
    await page.getByRole('group', { name: 'New key' }).getByLabel('Key', { exact: true }).fill('LONG');
    const long = page.getByLabel('Value of LONG');
    await long.focus();
    await page.keyboard.type('0123456789'.repeat(13));
    equal(await long.inputValue(), '0123456789'.repeat(13), 'nothing that was typed is lost');
    for (let i = 0; i < 20; i += 1) await page.keyboard.press('Backspace');
    await page.keyboard.type('x');
    equal(await long.inputValue(), `${'0123456789'.repeat(11)}x`, 'nor where it becomes short again');
    await page.getByRole('button', { name: 'Save', exact: true }).click();
    await page.getByText('Secret made').waitFor();
    await one.finish();
  } },
  { name: 'edges: a secret with a key without a name is edited like others', run: async ({ browser, dev }) => {
    await dev.must('POST', 'secret/data/edges/nameless', { data: { '': '', k: 'v' } });
    const one = await Watched.open(browser, dev);
    const { page } = one;
    await one.login('ops');
    await one.go('/ui/s/secret/edges/nameless?tab=edit');
    await page.getByText('Nothing changed yet').waitFor();
    await page.getByLabel('Value of k').fill('w');
    await page.getByText('1 changed').waitFor();
    await page.getByRole('button', { name: 'Save', exact: true }).click();
    await page.getByRole('dialog').getByRole('button', { name: 'Save', exact: true }).click();
    await page.getByText('Saved', { exact: true }).waitFor();
    equal((await dev.must('GET', 'secret/data/edges/nameless'))['data'].data, { '': '', k: 'w' }, 'both keys');
    await one.finish();
  } },
  { name: 'edges: on a slow network the screen that is left does not take the next address for its own', run: async ({ browser, dev }) => {
    const one = await Watched.open(browser, dev);
    const { page } = one;
    await one.login('ada');
    await one.go('/ui/s/secret/apps/payments/stripe');
    await page.getByRole('button', { name: 'Reveal API_KEY' }).waitFor();
    let release = (): void => undefined;
    const held = new Promise<void>((resolve) => { release = resolve; });
    await page.route('**/ui/assets/**', async (route) => { await held; await route.continue(); });
    const before = one.urls.length;
    await one.go('/ui/tools/hash');
    await page.getByRole('button', { name: 'Reveal API_KEY' }).waitFor({ state: 'detached' });
    await page.waitForTimeout(500);
    equal(await page.getByText('You have no right to this').count(), 0, 'no refusal');
    equal(one.urls.slice(before).filter((url) => url.includes('internal/ui/mounts')).join(), '', 'nothing is asked for by the address of another screen');
    await one.go('/ui/shared');
    release();
    await page.getByRole('heading', { name: 'Shared by me' }).waitFor();
    await page.waitForTimeout(300);
    ok(await page.getByRole('heading', { name: 'Shared by me' }).isVisible(), 'the last click counts');
    await one.finish();
  } },
  { name: 'edges: where capabilities may not be asked for, the rule tells what one may', run: async ({ browser, dev }) => {
    await dev.api('POST', 'sys/namespaces/below', {});
    await dev.api('DELETE', 'sys/mounts/kv', undefined, 'root', 'below');
    await until(async () => (await dev.api('POST', 'sys/mounts/kv', { type: 'kv', options: { version: '2' } }, 'root', 'below'))['status'] < 300, 'the mount is there');
    await until(async () => (await dev.api('POST', 'kv/data/a', { data: { k: 'v' } }, 'root', 'below'))['status'] < 300, 'it is written to');
    await dev.must('PUT', 'sys/policies/acl/below', { policy: 'path "below/kv/*" { capabilities = ["read", "list"] }' });
    await dev.must('POST', 'auth/userpass/users/bea', { password: 'correct horse battery', token_policies: ['below'] });
    const one = await Watched.open(browser, dev);
    const { page } = one;
    await one.login('bea');
    await one.go('/ui/s/kv/a?tab=who&ns=below');
    await page.getByText('may read', { exact: true }).waitFor();
    await page.getByRole('button', { name: 'delete', exact: true }).click();
    await page.getByText('may not delete', { exact: true }).waitFor();
    await one.finish();
  } },
  { name: 'edges: the console sends and shows numbers as they were written, and takes an address as people write it', run: async ({ browser, dev }) => {
    await dev.api('POST', 'sys/namespaces/console', {});
    const one = await Watched.open(browser, dev);
    const { page } = one;
    await one.login('ops');
    await one.go('/ui/tools/api?path=secret/data/{path}');
    const form = page.locator('form[data-form="tools/api"]');
    await form.getByLabel('Method').selectOption('POST');
    await form.getByLabel('path', { exact: true }).fill('edges/exact');
    await form.getByLabel('data', { exact: true }).fill('{"big": 12345678901234567890, "f": 1.0}');
    await form.getByRole('button', { name: 'Send' }).click();
    await page.locator('pre.json', { hasText: '"version": ' }).waitFor();
    const stored = await (await fetch(`${dev.base}/v1/secret/data/edges/exact`, { headers: { 'X-Vault-Token': 'root' } })).text();
    ok(/"big":12345678901234567890,"f":1\.0/.test(stored), `as they were written: ${stored}`);
    await form.getByLabel('Method').selectOption('GET');
    await form.getByLabel('Path', { exact: true }).fill('/v1/secret/data/edges/exact?version=1');
    await form.getByRole('button', { name: 'Send' }).click();
    await page.locator('pre.json', { hasText: '"big": 12345678901234567890' }).waitFor();
    await one.go('/ui/tools/api?ns=console');
    await form.getByLabel('Path', { exact: true }).fill('secret/data/a b');
    await form.getByRole('button', { name: 'Copy as curl' }).click();
    equal(await page.evaluate(() => navigator.clipboard.readText()), `curl -s -X GET -H "X-Vault-Token: $VAULT_TOKEN" -H 'X-Vault-Namespace: console' '${dev.base}/v1/secret/data/a%20b'`, 'for a shell, in the namespace');
    await one.finish();
  } },
  { name: 'edges: keys and certificates that are pasted into the console keep their lines, also several in a list', run: async ({ browser, dev }) => {
    await dev.api('POST', 'sys/auth/edgejwt', { type: 'jwt' });
    const one = await Watched.open(browser, dev);
    const { page } = one;
    await one.login('ops');
    await one.go('/ui/tools/api?path=auth/edgejwt/config');
    const form = page.locator('form[data-form="tools/api"]');
    await form.getByLabel('Method').selectOption('POST');
    const keys = [1, 2].map(() => generateKeyPairSync('ec', { namedCurve: 'P-256' }).publicKey.export({ type: 'spki', format: 'pem' }).toString());
    await page.evaluate((text) => navigator.clipboard.writeText(text), keys.join(''));
    await form.getByLabel('jwt_validation_pubkeys').focus();
    await page.keyboard.press('Control+v');
    await form.getByRole('button', { name: 'Send' }).click();
    await page.locator('pre.json').waitFor();
    equal(((await dev.must('GET', 'auth/edgejwt/config'))['data'].jwt_validation_pubkeys as string[]).length, 2, 'two keys');
    await one.finish();
  } },
  { name: 'edges: the lines of Use it name the namespace, are quoted for their language, and are those of version 1', run: async ({ browser, dev }) => {
    await dev.api('POST', 'sys/namespaces/lines', {});
    for (const [mount, version] of [['one', '1'], ['two', '2']] as const) {
      await until(async () => [200, 204, 400].includes((await dev.api('POST', `sys/mounts/${mount}`, { type: 'kv', options: { version } }, 'root', 'lines'))['status']), 'the mount is there');
    }
    const data = { '1st "key" ${x}': 'v' };
    await dev.must('POST', 'one/My_App', data, 'root', 'lines');
    await until(async () => (await dev.api('POST', 'two/data/My_App', { data }, 'root', 'lines'))['status'] < 300, 'it is written');
    const one = await Watched.open(browser, dev);
    const { page } = one;
    await one.login('root');
    const card = async (name: string): Promise<string> => page.locator('.card', { has: page.getByRole('heading', { name, exact: true }) }).locator('pre, code').first().innerText();
    await one.go('/ui/s/two/My_App?tab=use&ns=lines');
    await page.getByRole('heading', { name: 'Rust', exact: true }).waitFor();
    await until(async () => (await card('Go')).includes('1st'), 'its key is there');
    const holds = async (name: string, ...parts: string[]): Promise<void> => { const text = await card(name); for (const part of parts) ok(text.includes(part), `${name} has ${part}: ${text}`); };
    await holds('Kubernetes', 'name: my-app\n', 'spec.provider.vault.namespace: lines', 'secretKey: "1st__key____x_"', 'property: "1st \\"key\\" ${x}"');
    await holds('Terraform', 'namespace = "lines"', 'data["1st \\"key\\" $${x}"]');
    await holds('Go', 'client.WithNamespace("lines").KVv2("two").Get(ctx, "My_App")', 'Data["1st \\"key\\" ${x}"]');
    await holds('Java', 'spring.cloud.vault.namespace=lines', 'opsForVersionedKeyValue("two")');
    await holds('Rust', '.namespace(Some("lines".into()))', '&secret["1st \\"key\\" ${x}"]');
    await holds('.env', 'export _1ST__KEY____X_=');
    await one.go('/ui/s/one/My_App?tab=use&ns=lines');
    await until(async () => (await card('Java')).includes('opsForKeyValue("one", KeyValueBackend.KV_1).get("My_App")'), 'the operations of version 1');
    await one.finish();
  } },
  { name: 'edges: a server that cannot tell about a shared link does not say that somebody else opened it', run: async ({ browser, dev }) => {
    const one = await Watched.open(browser, dev);
    const { page } = one;
    const made = await fetch(`${dev.base}/v1/sys/wrapping/wrap`, { method: 'POST', headers: { 'X-Vault-Token': dev.token, 'X-Vault-Wrap-TTL': '600s' }, body: '{"n":12345678901234567890}' });
    let left = 2;
    const refuse = { status: 503, contentType: 'application/json', body: '{"errors":["no server leads the cluster just now"]}' };
    for (const path of ['lookup', 'unwrap']) await page.route(`**/v1/sys/wrapping/${path}`, (route) => (path === (left === 2 ? 'lookup' : 'unwrap') && left > 0 ? (left -= 1, route.fulfill(refuse)) : route.continue()));
    await page.goto(`/ui/open#${(await made.json() as { wrap_info: { token: string } }).wrap_info.token}`);
    await page.getByText('no server leads the cluster just now').waitFor();
    equal(await page.getByText('opens nothing any more').count(), 0, 'no alarm');
    await page.getByRole('button', { name: 'Look again' }).click();
    await page.getByRole('button', { name: 'Open it now' }).click();
    await page.getByText('no server leads the cluster just now').waitFor();
    await page.getByRole('button', { name: 'Look again' }).click();
    await page.getByRole('button', { name: 'Open it now' }).click();
    await page.getByRole('button', { name: 'Show', exact: true }).click();
    await page.locator('.shown', { hasText: '12345678901234567890' }).waitFor();
    await one.finish();
  } },
  { name: 'edges: numbers that are wrapped and unwrapped among the tools stay as they were written', run: async ({ browser, dev }) => {
    const one = await Watched.open(browser, dev);
    const { page } = one;
    await one.login('ops');
    await one.go('/ui/tools/wrap');
    const form = page.locator('form[data-form="tools/wrap"]');
    await form.getByLabel('JSON').fill('{"big": 12345678901234567890, "f": 1.0');
    await form.getByRole('button', { name: 'wrap', exact: true }).click();
    await form.getByText('line 1').waitFor();
    await form.getByLabel('JSON').fill('{"big": 12345678901234567890, "f": 1.0}');
    await form.getByRole('button', { name: 'wrap', exact: true }).click();
    const token = await page.locator('.code code').innerText();
    await form.getByLabel('What to do').selectOption('unwrap');
    await form.getByLabel('Wrapping token').fill(token);
    await form.getByRole('button', { name: 'unwrap', exact: true }).click();
    await page.locator('.code code', { hasText: '"big": 12345678901234567890' }).waitFor();
    ok((await page.locator('.code code').innerText()).includes('"f": 1.0'), 'as it was written');
    await one.finish();
  } },
  { name: 'edges: an import takes numbers for values, and aliases and merges of YAML for what they stand for', run: async ({ browser, dev }) => {
    const one = await Watched.open(browser, dev);
    const { page } = one;
    await one.login('ops');
    for (const [name, text, held] of [
      ['numbers', '{"port": 5432, "retries": 3}', '{"port":5432,"retries":3}'],
      ['aliases', 'base: &base secret\nsame: *base\n', '{"base":"secret","same":"secret"}'],
      ['merges', 'app:\n  common: &common\n    user: u\n    pass: p\n  db:\n    <<: *common\n    pass: q\n  n: 1\n', '{"common":{"pass":"p","user":"u"},"db":{"pass":"q","user":"u"},"n":1}'],
    ] as const) {
      const path = `secret/data/edges/import/${name === 'merges' ? 'app' : name}`;
      await dev.api('DELETE', path.replace('/data/', '/metadata/'));
      await one.go('/ui/s/secret/edges/');
      await one.go('/ui/s/secret/edges/import/?tab=import');
      await page.getByLabel('Or paste').fill(text);
      if (name !== 'merges') await page.getByLabel('Name of the secret').fill(name);
      await page.getByRole('button', { name: 'Preview 1 secret' }).click();
      await page.getByRole('button', { name: 'Write 1 secret' }).click();
      await until(async () => (await (await fetch(`${dev.base}/v1/${path}`, { headers: { 'X-Vault-Token': 'root' } })).text()).includes(`"data":${held},`), `${name} is there`);
    }
    await one.finish();
  } },
  { name: 'edges: what is done once its screen was left does not lead away from the next one', run: async ({ browser, dev }) => {
    await dev.api('DELETE', 'secret/metadata/edges/late/one');
    const one = await Watched.open(browser, dev);
    const { page } = one;
    await one.login('ops');
    let free = (): void => {};
    const held = new Promise<void>((done) => { free = done; });
    await page.route('**/v1/sys/kallisto/kv/write', async (route) => { await held; await route.continue(); });
    await one.go('/ui/s/secret/edges/late/?tab=import');
    await page.getByLabel('Or paste').fill('A=1');
    await page.getByLabel('Name of the secret').fill('one');
    await page.getByRole('button', { name: 'Preview 1 secret' }).click();
    await page.getByRole('button', { name: 'Write 1 secret' }).click();
    // Elsewhere, and back at the same address: another visit, with work of its own.
    await one.go('/ui/policies/');
    await page.getByRole('heading', { name: 'Policies' }).first().waitFor();
    await one.go('/ui/s/secret/edges/late/?tab=import');
    await page.getByLabel('Or paste').fill('B=2');
    free();
    await page.getByText(/1 secret.*written|Written.*1 secret/i).waitFor();
    if ((await page.getByLabel('Or paste').inputValue()) !== 'B=2') throw new Error(`what was begun meanwhile is gone, at ${page.url()}`);
    await one.finish();
  } },
  { name: 'edges: on a narrow screen the tab that is shown is in view', run: async ({ browser, dev }) => {
    const one = await Watched.open(browser, dev, { phone: true });
    await one.login('ops');
    for (const path of ['/ui/settings/server', '/ui/tools/api', '/ui/s/secret/apps/payments/stripe?tab=use']) {
      await one.page.goto(path);
      const tab = one.page.locator('nav a[aria-current=page]', { hasText: /Server|API console|Use it/ });
      await tab.waitFor();
      await until(async () => { const at = await tab.boundingBox(); return at !== null && at.x >= 0 && at.x + at.width <= 390; }, `${path}: its tab is in view`);
    }
    await one.finish();
  } },
  { name: 'edges: a quota is told for the paths that it is for, and none is replaced without a question', run: async ({ browser, dev }) => {
    await dev.must('POST', 'sys/quotas/rate-limit/edge-mount', { path: 'kv/int/', rate: 77_000 });
    await dev.must('POST', 'sys/quotas/rate-limit/edge-path', { path: 'kv/int/data/a', rate: 66_000 });
    await dev.must('POST', 'sys/quotas/rate-limit/edge-star', { path: 'kv/int/data/b*', rate: 55_000 });
    const one = await Watched.open(browser, dev);
    const { page } = one;
    await one.login('ops');
    await one.go('/ui/settings/quotas');
    const card = page.locator('.card', { has: page.getByRole('heading', { name: 'Rate limits' }) });
    for (const [path, name] of [['kv/int/data/a', 'edge-path'], ['kv/int/data/a/', 'edge-path'], ['kv/int/data/apple', 'edge-mount'], ['kv/int/data/a/b', 'edge-mount'], ['kv/int/data/bee', 'edge-star'], ['kv/int/data/c', 'edge-mount']] as const) {
      await card.getByLabel('Which quota holds for this path?').fill(path);
      await card.locator('.note b', { hasText: name }).waitFor({ timeout: 3000 });
    }
    const form = card.locator('form[data-form="quotas/set"]');
    await form.getByLabel('New quota').fill('edge-path');
    await form.getByLabel('Requests a second').fill('5');
    await form.getByRole('button', { name: 'Set' }).click();
    await page.getByText('66,000').last().waitFor();
    await page.getByRole('dialog').getByRole('button', { name: 'Cancel' }).click();
    equal((await dev.must('GET', 'sys/quotas/rate-limit/edge-path'))['data'].rate, 66_000, 'not replaced');
    for (const name of ['mount', 'path', 'star']) await dev.must('DELETE', `sys/quotas/rate-limit/edge-${name}`);
    await one.finish();
  } },
  { name: 'edges: a new schedule of snapshots replaces none of its name without a question', run: async ({ browser, dev }) => {
    const one = await Watched.open(browser, dev);
    const { page } = one;
    await one.login('ops');
    const written: string[] = [];
    await page.route('**/v1/sys/storage/raft/snapshot-auto/**', (route) => {
      const request = route.request();
      if (request.method() === 'POST') { written.push(request.url()); return route.fulfill({ status: 204 }); }
      return route.fulfill({ json: { data: request.method() === 'LIST' ? { keys: ['nightly'] } : request.url().includes('/status/') ? {} : { interval: 86_400, retain: 30, storage_type: 'aws-s3', aws_s3_bucket: 'offsite' } } });
    });
    await one.go('/ui/snapshots');
    await page.getByRole('button', { name: 'New schedule' }).click();
    await page.getByRole('button', { name: 'Save schedule' }).click();
    await page.getByRole('dialog').getByText('offsite').waitFor();
    await page.getByRole('dialog').getByRole('button', { name: 'Cancel' }).click();
    equal(written.length, 0, 'nothing was written');
    await page.getByRole('button', { name: 'Save schedule' }).click();
    await page.getByRole('dialog').getByRole('button', { name: 'Replace' }).click();
    await until(() => written.length === 1, 'it is replaced if somebody wants that');
    await one.finish();
  } },
  { name: 'edges: metadata is saved with a policy that grants update alone, and a time that was set elsewhere is shown', run: async ({ browser, dev }) => {
    await dev.must('PUT', 'sys/policies/acl/updater', { policy: 'path "secret/metadata/edges/*" { capabilities = ["create", "read", "update", "list"] }\npath "secret/subkeys/edges/*" { capabilities = ["read"] }' });
    await dev.must('POST', 'auth/userpass/users/uma', { password: 'correct horse battery', token_policies: ['updater'] });
    await dev.must('POST', 'secret/data/edges/meta', { data: { k: 'v' } });
    await dev.must('POST', 'secret/metadata/edges/meta', { custom_metadata: { due: '2027-01-31T08:00:00Z', old: 'x' } });
    const one = await Watched.open(browser, dev);
    const { page } = one;
    await one.login('uma');
    await one.go('/ui/s/secret/edges/meta?tab=meta');
    await page.getByLabel('Owner').fill('ada');
    equal(await page.getByLabel('Rotate by').inputValue(), '2027-01-31T08:00:00Z', 'the time is shown');
    await page.getByRole('button', { name: 'Remove old' }).click();
    await page.getByRole('button', { name: 'Save metadata' }).click();
    await page.getByText('Metadata saved').waitFor({ timeout: 5000 });
    equal((await dev.must('GET', 'secret/metadata/edges/meta'))['data'].custom_metadata, { due: '2027-01-31T08:00:00Z', owner: 'ada' }, 'as it was edited');
    await one.finish();
  } },
  { name: 'edges: a link that is made in a namespace below that of the token is among those shared by me', run: async ({ browser, dev }) => {
    await dev.api('POST', 'sys/namespaces/links', {});
    await until(async () => [204, 400].includes((await dev.api('POST', 'sys/mounts/kv', { type: 'kv', options: { version: '2' } }, 'root', 'links'))['status']), 'the mount is there');
    await until(async () => (await dev.api('POST', 'kv/data/a', { data: { k: 'v' } }, 'root', 'links'))['status'] < 300, 'it is written to');
    await dev.must('PUT', 'sys/policies/acl/links', { policy: 'path "links/kv/*" { capabilities = ["read", "list"] }' });
    await dev.must('POST', 'auth/userpass/users/lea', { password: 'correct horse battery', token_policies: ['links'] });
    const one = await Watched.open(browser, dev);
    const { page } = one;
    await one.login('lea');
    await one.go('/ui/s/kv/a?ns=links');
    await page.getByRole('button', { name: 'Share once' }).click();
    await page.getByLabel(/Note/).fill('for ada');
    await page.getByRole('button', { name: 'Make the link' }).click();
    await page.getByRole('heading', { name: 'A link that opens once' }).waitFor();
    await page.keyboard.press('Escape');
    await one.go('/ui/shared?ns=links');
    await page.getByText('for ada').waitFor({ timeout: 5000 });
    await one.go('/ui/shared');
    await page.getByText('for ada').waitFor({ timeout: 5000 });
    await one.finish();
  } },
  { name: 'edges: what is copied after a secret stays in the clipboard', run: async ({ browser, dev }) => {
    await dev.must('POST', 'secret/data/edges/copied', { data: { k: 'v' } });
    const one = await Watched.open(browser, dev);
    const { page } = one;
    await page.route('**/v1/sys/internal/ui/config', async (route) => {
      const answer = await route.fetch();
      const body = await answer.json() as { data: Record<string, unknown> };
      body.data['clipboard_secs'] = 2;
      await route.fulfill({ response: answer, json: body });
    });
    await one.login('ops');
    await one.go('/ui/s/secret/edges/copied');
    await page.getByRole('button', { name: 'Copy k' }).click();
    await until(async () => (await page.evaluate(() => navigator.clipboard.readText())) === 'v', 'the secret is copied');
    await page.getByRole('button', { name: 'Copy path' }).click();
    await page.waitForTimeout(3000);
    equal(await page.evaluate(() => navigator.clipboard.readText()), 'secret/edges/copied', 'the path is still there');
    await one.finish();
  } },
  { name: 'edges: a derived key is tried with its context, and blanks around a ciphertext have no meaning', run: async ({ browser, dev }) => {
    await dev.must('POST', 'transit/keys/derived', { derived: true });
    const one = await Watched.open(browser, dev);
    const { page } = one;
    await one.login('ops');
    await one.go('/ui/transit/transit/derived');
    const form = page.locator('form[data-form="transit/bench"]');
    await form.getByLabel('Context').fill('tenant-1', { timeout: 5000 });
    await form.getByLabel('Text', { exact: true }).fill('hello');
    await form.getByRole('button', { name: 'encrypt' }).click();
    await page.locator('.code code', { hasText: 'vault:v1:' }).waitFor();
    const ciphertext = await page.locator('.code code').innerText();
    await page.getByRole('group').getByRole('button', { name: 'decrypt' }).click();
    await form.getByLabel('Ciphertext').fill(` ${ciphertext}\n`);
    await form.getByRole('button', { name: 'decrypt' }).click();
    await page.locator('.code code', { hasText: /^hello$/ }).waitFor();
    await one.finish();
  } },
  { name: 'edges: setting up a login method anew keeps the settings that its form does not have', run: async ({ browser, dev }) => {
    await dev.api('POST', 'sys/auth/edgekept', { type: 'jwt' });
    await dev.must('POST', 'auth/edgekept/config', { jwt_validation_pubkeys: [generateKeyPairSync('ec', { namedCurve: 'P-256' }).publicKey.export({ type: 'spki', format: 'pem' })], jwt_supported_algs: ['ES256'], bound_issuer: 'a' });
    await dev.api('POST', 'sys/auth/edgekube', { type: 'kubernetes' });
    const ca = (await dev.api('POST', 'sys/mounts/edgeca', { type: 'pki' }), await dev.must('POST', 'edgeca/root/generate/internal', { common_name: 'ca' }))['data'].certificate as string;
    await dev.must('POST', 'auth/edgekube/config', { kubernetes_host: 'https://127.0.0.1:6443', kubernetes_ca_cert: ca, token_reviewer_jwt: 'eyJhbGciOiJub25lIn0.e30.x', disable_local_ca_jwt: true });
    const one = await Watched.open(browser, dev);
    const { page } = one;
    await one.login('ops');
    const form = page.locator('form[data-form="logins/config"]');
    await one.go('/ui/people/logins/edgekept/');
    await page.getByRole('button', { name: 'Set up' }).click();
    await form.getByLabel('Issuer').fill('b');
    await form.getByRole('button', { name: 'Save' }).click();
    await form.waitFor({ state: 'detached' });
    const jwt = (await dev.must('GET', 'auth/edgekept/config'))['data'];
    equal([jwt.bound_issuer, jwt.jwt_supported_algs, jwt.jwt_validation_pubkeys.length], ['b', ['ES256'], 1], 'the key and the algorithms are still there');
    await one.go('/ui/people/logins/edgekube/');
    await page.getByRole('button', { name: 'Set up' }).click();
    await form.getByLabel('Address of the cluster').fill('https://127.0.0.1:6444');
    await form.getByText('Needed again').waitFor({ timeout: 5000 });
    await form.getByLabel('Token that may review tokens').fill('eyJhbGciOiJub25lIn0.e30.y');
    await form.getByRole('button', { name: 'Save' }).click();
    await form.waitFor({ state: 'detached' });
    const kube = (await dev.must('GET', 'auth/edgekube/config'))['data'];
    equal([kube.kubernetes_host, kube.disable_local_ca_jwt, kube.token_reviewer_jwt_set], ['https://127.0.0.1:6444', true, true], 'the token and the switch are still there');
    for (const name of ['edgekept', 'edgekube']) await dev.must('DELETE', `sys/auth/${name}`);
    await dev.must('DELETE', 'sys/mounts/edgeca');
    await one.finish();
  } },
  { name: 'edges: a new namespace with the name of one that exists leaves that as it is', run: async ({ browser, dev }) => {
    await dev.must('POST', 'sys/namespaces/edgemeta', { custom_metadata: { owner: 'ada' } });
    const one = await Watched.open(browser, dev);
    const { page } = one;
    await one.login('ops');
    await one.go('/ui/settings/namespaces');
    await page.getByRole('row', { name: /edgemeta/ }).waitFor();
    await page.getByLabel('New namespace').fill('edgemeta');
    await page.getByRole('button', { name: 'Create' }).click();
    await page.locator('.note.bad').waitFor({ timeout: 5000 });
    equal((await dev.must('GET', 'sys/namespaces/edgemeta'))['data'].custom_metadata, { owner: 'ada' }, 'its metadata is still there');
    await dev.api('DELETE', 'sys/namespaces/edgemeta');
    await one.finish();
  } },
  { name: 'edges: a name that a path cannot have is refused in the dialog, in the words of the server, and leads nowhere', run: async ({ browser, dev }) => {
    await dev.must('PUT', 'sys/policies/acl/victim', { policy: '# of somebody else' });
    const one = await Watched.open(browser, dev);
    const { page } = one;
    await one.login('ops');
    const folder = '/ui/s/secret/apps/payments/';
    await one.go(folder);
    await page.getByRole('button', { name: 'New secret' }).first().click();
    const dialog = page.getByRole('dialog');
    const go = dialog.getByRole('button', { name: 'Go on' });
    for (const name of ['..', '../app', 'a/../b', 'a/..', './a', '../../../v1/sys/mounts', 'a\\b', 'a\tb', 'a\u0085b', 'a//b', 'x'.repeat(1100), 'a/'.repeat(40) + 'a']) {
      const { errors = [''] } = await dev.api('POST', 'sys/kallisto/kv/write', { writes: [{ path: `secret/metadata/apps/payments/${name}`, data: {} }] }) as { errors?: string[] };
      const reason = /path (has|is) .*?(?= at byte|[;:]|$)/.exec(errors[0] ?? '')?.[0] ?? `no reason in ${errors[0]}`;
      await dialog.getByLabel('Name').fill(name);
      await dialog.getByText(reason).waitFor({ timeout: 3000 });
      ok(await go.isDisabled(), `${name} cannot be sent`);
      await dialog.getByLabel('Name').press('Enter');
      equal(new URL(page.url()).pathname, folder, `after ${name}`);
    }
    await dialog.getByLabel('Name').fill('.env/..a');
    await go.click();
    await page.getByLabel('Key', { exact: true }).waitFor();
    equal(new URL(page.url()).pathname, `${folder}.env/..a`, 'a name may begin with dots');
    await one.go('/ui/policies/');
    await page.getByRole('button', { name: 'New policy' }).click();
    const form = page.locator('form[data-form="policy/new"]');
    for (const [name, reason] of [['../../mounts', "path has a '.' or '..' segment"], ['a/../victim', "path has a '.' or '..' segment"], ['a\\b', 'path has a backslash'], ['n'.repeat(300), 'policy name is longer than 256 bytes']] as const) {
      await form.getByLabel('Name').fill(name);
      await form.getByRole('button', { name: 'Go on' }).click();
      await form.getByText(reason).waitFor({ timeout: 3000 });
      equal(new URL(page.url()).pathname, '/ui/policies/', `after ${name}`);
    }
    await page.keyboard.press('Escape');
    // Names that are sent before they become an address.
    for (const [url, opener, label, submit] of [['/ui/transit/transit/', 'New key', 'Name', 'Make it'], ['/ui/settings/mounts', 'New mount', 'Path', 'Mount'], ['/ui/people/logins/', 'Enable one', 'Path', 'Enable'], ['/ui/people/logins/userpass/', 'New user', 'Name', 'Make it']] as const) {
      await one.go(url);
      const before = one.urls.length;
      await page.getByRole('button', { name: opener }).first().click();
      await dialog.getByLabel(label, { exact: true }).fill('../x');
      if (opener === 'New user') await dialog.getByLabel('Password').fill('correct horse battery');
      await dialog.getByRole('button', { name: submit, exact: true }).click();
      await dialog.getByText("path has a '.' or '..' segment").waitFor({ timeout: 3000 });
      equal(one.urls.slice(before).filter((asked) => asked.endsWith('/x')), [], `nothing is sent by ${opener}`);
      equal(new URL(page.url()).pathname, url, `after ${opener}`);
      await page.keyboard.press('Escape');
    }
    await one.go('/ui/s/');
    const box = page.getByLabel('Go to a path');
    for (const text of ['secret/../../../v1/sys/mounts', `${dev.base}/ui/s/secret/%2e%2e/x`]) {
      await box.fill(text);
      await page.getByText("path has a '.' or '..' segment").waitFor({ timeout: 3000 });
      await box.press('Enter');
      equal(new URL(page.url()).pathname, '/ui/s/', `after ${text}`);
    }
    await one.finish();
  } },
  { name: 'edges: no link, way back or encoded slash leads out of the page, or to another route of the API', run: async ({ browser, dev }) => {
    const one = await Watched.open(browser, dev);
    const { page } = one;
    const at = (): string => { const url = new URL(page.url()); return url.pathname + url.search; };
    for (const [to, wanted] of [['/ui/../v1/sys/seal-status', '/ui/'], ['/ui/%2e%2e/v1/x', '/ui/'], ['/ui/s/../../x', '/ui/'], ['//example.com/ui/', '/ui/'], ['/ui/s/../policies/', '/ui/policies/'], ['/ui/s/secret/?tab=import', '/ui/s/secret/?tab=import']] as const) {
      await page.goto(`/ui/login?with=userpass&to=${encodeURIComponent(to)}`);
      await page.getByLabel('User name').fill('ops');
      await page.getByLabel('Password').fill('correct horse battery');
      await page.getByRole('button', { name: 'Sign in', exact: true }).click();
      await page.locator('.app').waitFor();
      equal(at(), wanted, `by ${to}`);
      await page.evaluate(() => sessionStorage.clear());
    }
    await one.login('ops');
    for (const url of ['/ui/../v1/sys/mounts', '/ui/s/../../x']) {
      await one.go('/ui/policies/');
      await one.go(url);
      await until(() => at() === '/ui/', `${url} leads home, not to ${at()}`);
    }
    // The server decodes an encoded slash, and the browser leaves it: the page asks for nothing by such a name.
    for (const url of ['/ui/policies/..%2F..%2Fmounts', '/ui/s/secret%2F..%2F..%2Fx', '/ui/transit/transit/..%2Fx', '/ui/people/logins/..%2F..%2Fx/']) {
      const before = one.urls.length;
      await one.go(url);
      await page.getByText('No screen of this page has this address.').waitFor({ timeout: 5000 });
      await page.waitForTimeout(200);
      equal(one.urls.slice(before).filter((asked) => /\/v1\/(sys\/mounts|(.+\/)?x)$/.test(asked)), [], `nothing is asked for by ${url}`);
      await one.go('/ui/policies/');
      await page.getByRole('heading', { name: 'Policies' }).waitFor();
    }
    await one.finish();
  } },
  { name: 'edges: a server that was unsealed leads to the page alone', run: async ({ browser }) => {
    const server = await Server.durable();
    try {
      const made = await server.must('PUT', 'sys/init', { secret_shares: 1, secret_threshold: 1 }, '');
      const one = await Watched.open(browser, server);
      await one.page.goto(`/ui/unseal?to=${encodeURIComponent('/ui/../v1/sys/seal-status')}`);
      await one.page.getByLabel('Your share').fill((made['keys_base64'] as string[])[0] ?? '');
      await one.page.getByRole('button', { name: 'Enter the share' }).click();
      await one.page.getByRole('heading', { name: 'Sign in to Kallisto' }).waitFor();
      equal(new URL(one.page.url()).pathname, '/ui/login', 'where it leads');
      await one.finish();
    } finally { server.stop(); }
  } },
  { name: 'edges: a hidden value is one line at every width', run: async ({ browser, dev }) => {
    const one = await Watched.open(browser, dev);
    const { page } = one;
    await one.login('ada');
    for (const width of [1440, 1280, 1200, 1100, 1024, 720, 390]) {
      await page.setViewportSize({ width, height: 800 });
      await one.go('/ui/s/secret/apps/payments/stripe');
      await page.getByRole('button', { name: 'Reveal API_KEY' }).waitFor();
      equal(await page.locator('.mask > [aria-hidden]').evaluateAll((all) => all.map((mask) => mask.getClientRects().length).filter((lines) => lines !== 1)), [], `lines at ${width} px`);
      ok((await page.evaluate(() => document.documentElement.scrollWidth - innerWidth)) <= 0, `${width} px: nothing is cut off sideways`);
    }
    await one.finish();
  } },
];
