// Flows 2, 25 and 29: signing in, its refusals, the end of a session, logout over tabs, headers.
import { Watched } from '../browser.ts';
import { equal, ok, until } from '../assert.ts';
import type { Flow } from './index.ts';

export const session: Flow[] = [
  { name: '2 sign in by token, user name and AppRole; wrong password; locked out', run: async ({ browser, dev }) => {
    await dev.must('POST', 'sys/auth/approle', { type: 'approle', config: { listing_visibility: 'unauth' }, description: 'Apps' });
    await dev.must('POST', 'auth/approle/role/web', { token_policies: ['reader'] });
    const { data: role } = await dev.must('GET', 'auth/approle/role/web/role-id');
    const { data: secret } = await dev.must('POST', 'auth/approle/role/web/secret-id', {});
    const one = await Watched.open(browser, dev);
    const { page } = one;
    await page.goto('/ui/s/secret/apps/payments/stripe');
    await page.getByRole('button', { name: 'Apps' }).click();
    await page.getByLabel('Role id').fill(role.role_id);
    await page.getByLabel('Secret id').fill(secret.secret_id);
    await page.getByRole('button', { name: 'Sign in', exact: true }).click();
    await page.locator('.app').waitFor();
    ok(page.url().endsWith('/ui/s/secret/apps/payments/stripe'), 'on to where one wanted');
    await page.goto('/ui/login?with=userpass');
    await page.getByRole('button', { name: 'ada' }).or(page.getByRole('button', { name: 'session and preferences' })).first().click();
    await page.getByRole('button', { name: 'Sign out' }).click();
    await page.getByRole('heading', { name: 'Sign in to Kallisto' }).waitFor();
    await page.getByRole('button', { name: 'People' }).click();
    await page.getByLabel('User name').fill('nora');
    for (let i = 0; i < 6; i += 1) {
      await page.getByLabel('Password').fill('wrong');
      await page.getByRole('button', { name: 'Sign in', exact: true }).click();
      await page.getByRole('alert').waitFor();
      if (i === 0) await page.getByText('The user name or the password is wrong.').waitFor();
    }
    await page.getByText('Locked: too many wrong passwords.').waitFor();
    await one.finish();
    const two = await Watched.open(browser, dev);
    await two.login('root');
    await two.page.getByText('Signed in with a root token').waitFor();
    equal(await two.page.evaluate(() => Object.keys(sessionStorage).length), 0, 'a root token is in no storage');
    await two.page.reload();
    await two.page.getByRole('heading', { name: 'Sign in to Kallisto' }).waitFor();
    await two.finish();
  } },
  { name: '25 a session that ends in the middle of an edit goes on after signing in; two tabs log out together', run: async ({ browser, dev }) => {
    const one = await Watched.open(browser, dev);
    const { page } = one;
    await one.login('ada');
    await page.goto('/ui/s/secret/apps/payments/paypal?tab=edit');
    await page.getByLabel('Value of PASSWORD').fill('half-typed');
    const token = await page.evaluate(() => (JSON.parse(sessionStorage.getItem('kallisto.session') ?? '{}') as { token?: string }).token ?? '');
    ok(token, 'the token is kept for this tab');
    await dev.must('POST', 'auth/token/revoke', { token });
    await page.getByRole('button', { name: 'Save', exact: true }).click();
    await page.getByRole('button', { name: 'Save', exact: true }).last().click();
    await page.getByRole('heading', { name: 'The session has ended' }).waitFor();
    await one.axe();
    await page.getByLabel('User name').fill('ada');
    await page.locator('.cover').getByLabel('Password').fill('correct horse battery');
    await page.getByRole('button', { name: 'Sign in', exact: true }).click();
    await page.locator('.cover').waitFor({ state: 'detached' });
    equal(await page.getByLabel('Value of PASSWORD').inputValue(), 'half-typed', 'the edit is kept');
    const tab = await one.context.newPage();
    one.watch(tab);
    await tab.goto('/ui/');
    await tab.getByRole('heading', { name: 'Hello, ada' }).waitFor();
    await tab.getByRole('button', { name: 'session and preferences' }).click();
    await tab.getByRole('button', { name: 'Sign out' }).click();
    await tab.getByRole('heading', { name: 'Sign in to Kallisto' }).waitFor();
    await until(() => page.evaluate(() => sessionStorage.getItem('kallisto.session') === null), 'the other tab is signed out too');
    await one.finish();
  } },
  { name: '29 every answer below /ui has the headers; names and metadata are text; framing is refused', run: async ({ browser, dev }) => {
    const wanted = { 'content-security-policy': /default-src 'none'.*require-trusted-types-for 'script'/, 'x-frame-options': /DENY/, 'referrer-policy': /no-referrer/, 'x-content-type-options': /nosniff/, 'cross-origin-opener-policy': /same-origin/, 'cross-origin-resource-policy': /same-origin/, 'permissions-policy': /clipboard-write/ };
    const shell = await (await fetch(`${dev.base}/ui/`)).text();
    for (const path of ['/ui/', '/ui/s/a/b', '/ui/icon.svg', /src="([^"]+)"/.exec(shell)?.[1] ?? '']) {
      const response = await fetch(dev.base + path);
      for (const [name, pattern] of Object.entries(wanted)) ok(pattern.test(response.headers.get(name) ?? ''), `${path} ${name}`);
    }
    const evil = '<img src=x onerror=alert(1)>';
    await dev.must('POST', `secret/data/apps/payments/${encodeURIComponent(evil)}`, { data: { [evil]: evil } });
    await dev.must('POST', `secret/metadata/apps/payments/${encodeURIComponent(evil)}`, { custom_metadata: { owner: evil } });
    const one = await Watched.open(browser, dev);
    await one.login('ops');
    await one.page.goto(`/ui/s/secret/apps/payments/${encodeURIComponent(evil)}`);
    await one.page.getByRole('heading', { name: evil }).waitFor();
    await one.page.getByRole('button', { name: `Reveal ${evil}` }).click();
    await one.page.locator('.shown').waitFor();
    equal(await one.page.locator('main img').count(), 0, 'no element was made of it');
    await one.finish();
    await dev.must('DELETE', `secret/metadata/apps/payments/${encodeURIComponent(evil)}`);
  } },
];
