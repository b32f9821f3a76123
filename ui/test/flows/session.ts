// Flows 2, 25 and 29: signing in, its refusals, the end of a session, logout over tabs, headers.
import { createHmac } from 'node:crypto';
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
    await one.saveWithoutSession();
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
  { name: 'session: a tab that was too busy to answer at once still hands over its session, behind the login', run: async ({ browser, dev }) => {
    const token = (await dev.must('POST', 'auth/token/create', { policies: ['admin'], no_parent: true }))['auth'].client_token as string;
    const one = await Watched.open(browser, dev);
    // A page of the same origin, not of ours, that answers as a held-up tab does: when the one that asked has given up.
    await one.page.goto('/v1/sys/health');
    const answer = (): Promise<void> => one.page.evaluate((kept) => {
      new BroadcastChannel('kallisto').postMessage({ kept });
    }, { token, isOurs: false, mount: '' });
    for (const [address, end] of [['/ui/s/secret/', '/ui/s/secret/'], ['/ui/login?to=/ui/s/secret/', '/ui/s/secret/']] as const) {
      const tab = await one.context.newPage();
      one.watch(tab);
      await tab.goto(address);
      await tab.getByRole('heading', { name: 'Sign in to Kallisto' }).waitFor();
      await answer();
      await tab.locator('.app').waitFor();
      ok(tab.url().endsWith(end), `${address} leads on to ${tab.url()}`);
      await tab.close();
    }
    await one.page.goto('/ui/login');
    await one.finish();
  } },
  { name: 'session: signing out with a pasted token: every way out of the question but two stays signed in', run: async ({ browser, dev }) => {
    const made = async (): Promise<string> => (await dev.must('POST', 'auth/token/create', { policies: ['admin'], no_parent: true }))['auth'].client_token as string;
    const one = await Watched.open(browser, dev);
    const { page } = one;
    const paste = async (token: string): Promise<void> => {
      await page.goto('/ui/login');
      await page.getByRole('button', { name: 'Token' }).click();
      await page.getByLabel('Token').fill(token);
      await page.getByRole('button', { name: 'Sign in', exact: true }).click();
      await page.locator('.app').waitFor();
    };
    const ask = async (from = page): Promise<void> => {
      await from.bringToFront();
      await from.getByRole('button', { name: 'session and preferences' }).click();
      await from.getByRole('button', { name: 'Sign out', exact: true }).click();
      await from.getByRole('heading', { name: 'Revoke the token too?' }).waitFor();
    };
    const kept = await made();
    await paste(kept);
    const tab = await one.context.newPage();
    one.watch(tab);
    await tab.goto('/ui/shared');
    await tab.getByRole('heading', { name: 'Shared by me' }).waitFor();
    await ask();
    await one.axe();
    await page.getByRole('button', { name: 'Cancel' }).click();
    await ask();
    await page.keyboard.press('Escape');
    await ask();
    await page.mouse.click(4, 4);
    await ask(tab);
    await tab.keyboard.press('Escape');
    await page.waitForTimeout(500);
    for (const each of [page, tab]) {
      await each.locator('.app').waitFor({ timeout: 2000 });
      equal(await each.getByRole('dialog').count(), 0, 'the question is gone');
      ok(await each.evaluate(() => sessionStorage.getItem('kallisto.session')), 'the session is not');
    }
    await ask(tab);
    await tab.getByRole('button', { name: 'Sign out and keep it' }).click();
    for (const each of [page, tab]) await each.getByRole('heading', { name: 'Sign in to Kallisto' }).waitFor();
    equal((await dev.api('GET', 'auth/token/lookup-self', undefined, kept))['status'], 200, 'the token is still there');
    await tab.close();
    const revoked = await made();
    await paste(revoked);
    await ask();
    await page.getByRole('button', { name: 'Revoke it and sign out' }).click();
    await page.getByRole('heading', { name: 'Sign in to Kallisto' }).waitFor();
    equal((await dev.api('GET', 'auth/token/lookup-self', undefined, revoked))['status'], 403, 'the token is gone');
    await one.finish();
  } },
  { name: 'session: names of secrets go with the session that saw them: at sign-out, at its end, and when somebody else signs in', run: async ({ browser, dev }) => {
    const one = await Watched.open(browser, dev);
    let page = one.page;
    const names = (): Promise<string[]> => page.evaluate(() => [...Object.entries(localStorage), ...Object.entries(sessionStorage)].filter(([, value]) => /payments|paypal|stripe/.test(String(value))).map(([key]) => key).sort());
    const signIn = async (who: string): Promise<void> => {
      await page.goto('/ui/login');
      await page.getByRole('button', { name: 'People' }).click();
      await page.getByLabel('User name').fill(who);
      await page.getByLabel('Password').fill('correct horse battery');
      await page.getByRole('button', { name: 'Sign in', exact: true }).click();
      await page.getByRole('heading', { name: `Hello, ${who}` }).waitFor();
    };
    const visit = async (): Promise<void> => {
      await page.goto('/ui/s/secret/apps/payments/stripe');
      await page.getByRole('button', { name: 'Pin to home' }).click();
      await page.goto('/ui/s/secret/apps/payments/paypal');
      await page.getByRole('button', { name: 'Reveal PASSWORD' }).waitFor();
      equal(await names(), ['kallisto.pinned', 'kallisto.recent'], 'places are kept over a reload');
    };
    const seen = async (who: string): Promise<number> => {
      await page.getByRole('heading', { name: `Hello, ${who}` }).waitFor();
      await page.waitForTimeout(300);
      return page.locator('main').getByText('secret/apps/payments/').count();
    };
    const again = async (): Promise<void> => { const closed = page; page = await one.context.newPage(); one.watch(page); await closed.close(); };
    await signIn('ada');
    await visit();
    // A second tab is told at once, and shows nothing of them to whoever signs in there next.
    const first = page;
    page = await one.context.newPage();
    one.watch(page);
    await page.goto('/ui/');
    ok(await seen('ada') > 0, 'home shows them');
    const token = await page.evaluate(() => (JSON.parse(sessionStorage.getItem('kallisto.session') ?? '{}') as { token?: string }).token ?? '');
    equal((await dev.api('GET', 'auth/token/lookup-self', undefined, token))['status'], 200, 'the token lives');
    await page.getByRole('button', { name: 'session and preferences' }).click();
    await page.getByRole('button', { name: 'Sign out', exact: true }).click();
    await page.getByRole('heading', { name: 'Sign in to Kallisto' }).waitFor();
    equal(await names(), [], 'none after signing out');
    equal((await dev.api('GET', 'auth/token/lookup-self', undefined, token))['status'], 403, 'the token that the page got is revoked');
    await page.close();
    page = first;
    await page.getByRole('heading', { name: 'Sign in to Kallisto' }).waitFor();
    equal(await names(), [], 'none in the other tab');
    await signIn('ops');
    equal(await seen('ops'), 0, 'the next person sees none');
    await again();
    // A session that ends by itself.
    await signIn('ada');
    await visit();
    await dev.must('POST', 'auth/token/revoke', { token: await page.evaluate(() => (JSON.parse(sessionStorage.getItem('kallisto.session') ?? '{}') as { token?: string }).token ?? '') });
    await page.getByRole('button', { name: 'Reveal PASSWORD' }).click();
    await page.getByRole('heading', { name: 'The session has ended' }).waitFor();
    equal(await names(), [], 'none after the session has ended');
    await again();
    // A tab that was closed leaves them to its person, and to nobody else.
    await signIn('ada');
    await visit();
    await again();
    await signIn('ada');
    ok(await seen('ada') > 0, 'home shows them to the same person');
    await again();
    await signIn('ops');
    equal([await seen('ops'), await names()], [0, []], 'nor to another');
    await again();
    // A session that ended while no page was open.
    await signIn('ada');
    await visit();
    await page.evaluate(() => localStorage.setItem('kallisto.owner', JSON.stringify({ ...JSON.parse(localStorage.getItem('kallisto.owner') ?? '{}') as object, until: Date.now() - 1000 })));
    await again();
    await page.goto('/ui/login');
    await page.getByRole('heading', { name: 'Sign in to Kallisto' }).waitFor();
    equal(await names(), [], 'none after the end');
    await one.context.close();
    ok(one.faults.length === 0, one.faults.join());
  } },
  { name: 'session: a new tab is given the session of another, but never a root token, and none with session = "memory"', run: async ({ browser, dev }) => {
    const given = async (how: 'tab' | 'memory', who: string): Promise<boolean> => {
      const one = await Watched.open(browser, dev);
      await dev.must('POST', 'sys/config/ui/settings', { session: how });
      await one.login(who);
      const tab = await one.context.newPage();
      await tab.goto('/ui/');
      await tab.locator('.app').or(tab.getByRole('heading', { name: 'Sign in to Kallisto' })).first().waitFor();
      const isIn = await tab.locator('.app').count() > 0;
      const told = await tab.evaluate(() => new Promise<string>((resolve) => {
        const channel = new BroadcastChannel('kallisto');
        channel.addEventListener('message', (event) => resolve(JSON.stringify(event.data)));
        channel.postMessage({ asks: true });
        setTimeout(() => resolve(''), 400);
      }));
      equal(told.includes('"token"'), isIn, `what other tabs hear of ${who} with ${how}`);
      if (how === 'memory') equal(await one.page.evaluate(() => sessionStorage.length), 0, 'nothing is in storage');
      await one.context.close();
      return isIn;
    };
    try { equal([await given('tab', 'ada'), await given('tab', 'root'), await given('memory', 'ada')], [true, false, false], 'who is signed in in the new tab'); } finally { await dev.must('DELETE', 'sys/config/ui/settings'); }
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
  { name: '31 a login that a rule covers asks for a code: a wrong one, a used one, and the one that fits', run: async ({ browser, dev }) => {
    await dev.must('POST', 'auth/userpass/users/mfa-mia', { password: 'correct horse battery', token_policies: ['dev'] });
    const { auth } = await dev.must('POST', 'auth/userpass/login/mfa-mia', { password: 'correct horse battery' }, '');
    const method = `app-${Date.now()}`;
    const { data: made } = await dev.must('POST', 'identity/mfa/method/totp', { issuer: 'Example', method_name: method });
    const { data: key } = await dev.must('POST', 'identity/mfa/method/totp/admin-generate', { method_id: made.method_id, entity_id: auth.entity_id });
    await dev.must('POST', `identity/mfa/login-enforcement/people-${Date.now()}`, { mfa_method_ids: [made.method_id], identity_entity_ids: [auth.entity_id] });
    const one = await Watched.open(browser, dev);
    const { page } = one;
    await page.goto('/ui/s/secret/apps/payments/stripe');
    await page.getByRole('button', { name: 'People' }).click();
    await page.getByLabel('User name').fill('mfa-mia');
    await page.getByLabel('Password').fill('correct horse battery');
    const enter = async (): Promise<void> => { await page.getByRole('button', { name: 'Sign in', exact: true }).click(); await page.getByRole('heading', { name: 'A code is needed' }).waitFor(); };
    const give = async (code: string): Promise<void> => { await page.getByLabel(`Code of ${method}`).fill(code); await page.getByRole('button', { name: 'Go on' }).click(); };
    await enter();
    equal(await page.evaluate(() => document.activeElement?.getAttribute('autocomplete')), 'one-time-code', 'the code can be typed at once');
    await one.axe();
    await page.keyboard.press('Escape');
    await page.getByText('Without the code there is no signing in.').waitFor();
    equal(await page.evaluate(() => sessionStorage.getItem('kallisto.session')), null, 'no session without a code');
    await enter();
    const secret = new URL(key.url as string).searchParams.get('secret') ?? '';
    const right = totp(secret, Date.now());
    await give([...right].map((digit) => String((Number(digit) + 5) % 10)).join(''));
    await page.getByText('The code is wrong.').waitFor();
    const code = totp(secret, Date.now());
    await give(`${code.slice(0, 3)} ${code.slice(3)}`);
    await page.locator('.app').waitFor();
    ok(page.url().endsWith('/ui/s/secret/apps/payments/stripe'), 'on to where one wanted');
    ok(!one.urls.some((url) => url.includes(code)), 'the code is in no address');
    // A session that ends over an edit: the code is asked for above the cover, and the edit stays.
    await page.goto('/ui/s/secret/apps/payments/paypal?tab=edit');
    await page.getByLabel('Value of PASSWORD').fill('half-typed');
    await dev.must('POST', 'auth/token/revoke', { token: await page.evaluate(() => (JSON.parse(sessionStorage.getItem('kallisto.session') ?? '{}') as { token?: string }).token ?? '') });
    await one.saveWithoutSession();
    await page.getByLabel('User name').fill('mfa-mia');
    await page.locator('.cover').getByLabel('Password').fill('correct horse battery');
    await enter();
    await give(code);
    await page.getByText('This code was used already.').waitFor();
    // Codes of the next half minute are taken already, for clocks that are ahead.
    await give(totp(secret, Date.now() + 30_000));
    await page.locator('.cover').waitFor({ state: 'detached' });
    equal(await page.getByLabel('Value of PASSWORD').inputValue(), 'half-typed', 'the edit is kept');
    await one.finish();
  } },
];

/** The code of RFC 6238 (six digits, 30 s, SHA-1) that an app shows at a time. */
function totp(secret: string, ms: number): string {
  const bits = [...secret.replace(/=+$/, '')].map((char) => 'ABCDEFGHIJKLMNOPQRSTUVWXYZ234567'.indexOf(char).toString(2).padStart(5, '0')).join('');
  const key = Buffer.from((bits.match(/.{8}/g) ?? []).map((byte) => parseInt(byte, 2)));
  const counter = Buffer.alloc(8);
  counter.writeBigUInt64BE(BigInt(Math.floor(ms / 30_000)));
  const mac = createHmac('sha1', key).update(counter).digest();
  const at = (mac[19] ?? 0) & 15;
  return String((mac.readUInt32BE(at) & 0x7fff_ffff) % 1_000_000).padStart(6, '0');
}
