// Flows 6 to 13, 15, 16: reveal, history, edit, conflict, live change, import, export, move, delete, find, share once.
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { PLANTED, Watched } from '../browser.ts';
import { equal, ok, until } from '../assert.ts';
import type { Flow } from './index.ts';

const STRIPE = '/ui/s/secret/apps/payments/stripe';

export const secrets: Flow[] = [
  { name: '6 a value travels only when it is revealed, which is one audit record with its intent, and hides by itself', run: async ({ browser, dev }) => {
    const one = await Watched.open(browser, dev);
    const { page } = one;
    await one.login('ada');
    await one.go(STRIPE);
    await page.getByRole('button', { name: 'Reveal API_KEY' }).waitFor();
    await page.waitForTimeout(400);
    ok(!one.bodies.some((body) => PLANTED.slice(0, 2).some((value) => body.includes(value))), 'no value in any answer');
    const log = join(dev.folder, 'audit.log');
    const reads = (): number => readFileSync(log, 'utf8').split('\n').filter((line) => line.includes('"type":"request"') && line.includes('"path":"secret/data/apps/payments/stripe"') && line.includes('"operation":"read"')).length;
    const before = reads();
    await page.getByRole('button', { name: 'Reveal API_KEY' }).click();
    await page.getByText(PLANTED[0] ?? '').waitFor();
    await page.getByRole('button', { name: 'Reveal WEBHOOK_SECRET' }).click();
    await page.getByText(`${PLANTED[1]}_3`).waitFor();
    equal(reads() - before, 1, 'one read is recorded');
    ok(/x-kallisto-intent":\["reveal"\]/i.test(readFileSync(log, 'utf8')), 'with its intent');
    equal(await page.locator('.shown').count(), 2, 'two are shown');
    await page.evaluate(() => dispatchEvent(new Event('blur')));
    await page.locator('.shown').first().waitFor({ state: 'detached' });
    await page.getByRole('button', { name: 'Copy API_KEY without showing it' }).click();
    await page.getByText('API_KEY copied').waitFor();
    equal(await page.evaluate(() => navigator.clipboard.readText()), PLANTED[0] ?? '', 'copied');
    equal(await page.locator('.shown').count(), 0, 'and not shown');
    await one.finish();
  } },
  { name: '7 two versions are compared, hidden and shown; restore, undelete, destroy', run: async ({ browser, dev }) => {
    for (const n of [1, 2, 3]) await dev.must('POST', 'secret/data/hist/a', { data: { KEY: `value ${n}`, SAME: 's', ...(n === 3 ? { ADDED: '1' } : {}) } });
    const one = await Watched.open(browser, dev);
    const { page } = one;
    await one.login('ops');
    await one.go('/ui/s/secret/hist/a?tab=history&a=1&b=3');
    await page.getByText('1 added').waitFor();
    equal(await page.locator('.diff ins').count(), 0, 'values are hidden');
    await page.getByRole('button', { name: 'Show values' }).click();
    await page.locator('.diff ins').first().waitFor();
    await page.getByRole('button', { name: 'JSON' }).click();
    await page.locator('.lines .add').first().waitFor();
    await one.axe();
    await page.getByRole('button', { name: 'Restore 1 as 4' }).click();
    await page.getByRole('dialog').getByRole('button', { name: 'Restore 1 as 4' }).click();
    await page.locator('.vs').getByText('Version 4', { exact: true }).waitFor();
    equal((await dev.must('GET', 'secret/data/hist/a'))['data'].data.KEY, 'value 1', 'restored');
    const item = page.locator('.vs li', { hasText: 'Version 2' });
    await item.hover();
    await item.getByRole('button', { name: 'Delete' }).click();
    await item.getByText('deleted', { exact: true }).waitFor();
    await item.getByRole('button', { name: 'Undelete' }).click();
    await item.getByText('deleted', { exact: true }).waitFor({ state: 'detached' });
    await item.getByRole('button', { name: 'Destroy' }).click();
    ok(await page.getByRole('dialog').getByRole('button', { name: 'Destroy' }).isDisabled(), 'destroying needs typing');
    await page.getByRole('dialog').getByRole('textbox').fill('destroy 2');
    await page.getByRole('dialog').getByRole('button', { name: 'Destroy' }).click();
    await item.getByText('destroyed').first().waitFor();
    await one.finish();
  } },
  { name: '8 an edit shows its difference and leaves numbers as they were; 9 a conflict is merged and asked', run: async ({ browser, dev }) => {
    const text = '{"data":{"keep":1.0,"big":123456789012345678901234567890,"mine":"a","theirs":"a","both":"a"}}';
    await dev.must('POST', 'secret/data/edit/a', text);
    const one = await Watched.open(browser, dev);
    const { page } = one;
    await one.login('ops');
    await one.go('/ui/s/secret/edit/a?tab=edit');
    await page.getByLabel('Value of mine').fill('my change');
    await page.getByLabel('Value of both').fill('my side');
    await dev.must('POST', 'secret/data/edit/a', text.replace('"theirs":"a"', '"theirs":"b"').replace('"both":"a"', '"both":"their side"'));
    await page.getByRole('button', { name: 'Save', exact: true }).click();
    await page.getByText('Save 2 changes?').waitFor();
    await one.axe();
    await page.getByRole('dialog').getByRole('button', { name: 'Save', exact: true }).click();
    await page.getByText('Somebody saved version 2 meanwhile').waitFor();
    await one.axe();
    await page.getByRole('radio').nth(1).check();
    await page.getByRole('button', { name: 'Save over version 2' }).click();
    await page.getByText('Saved', { exact: true }).waitFor();
    const raw = await (await fetch(`${dev.base}/v1/secret/data/edit/a`, { headers: { 'X-Vault-Token': 'root' } })).text();
    for (const part of ['"keep":1.0', '"big":123456789012345678901234567890', '"mine":"my change"', '"theirs":"b"', '"both":"my side"', '"version":3']) ok(raw.includes(part), `${part} in ${raw}`);
    await one.finish();
  } },
  { name: '10 a change from elsewhere appears without a reload', run: async ({ browser, dev }) => {
    const one = await Watched.open(browser, dev);
    await one.login('ada');
    await one.go('/ui/s/secret/apps/payments/');
    await one.page.getByRole('option', { name: 'stripe' }).first().waitFor();
    await one.page.waitForTimeout(600);
    await dev.must('POST', 'secret/data/apps/payments/from-elsewhere', { data: { a: 'b' } });
    await one.page.getByRole('option', { name: 'from-elsewhere' }).waitFor();
    await one.finish();
    await dev.must('DELETE', 'secret/metadata/apps/payments/from-elsewhere');
  } },
  { name: '11 import of .env and YAML with a preview; 12 export gives the same back', run: async ({ browser, dev }) => {
    const one = await Watched.open(browser, dev);
    const { page } = one;
    await one.login('ops');
    await one.go('/ui/s/secret/imp/');
    await page.getByRole('link', { name: 'Import' }).first().click();
    await page.getByLabel('Or paste').fill('export A=1\nB="two words"\nC="line\nnext"\nA=3\n');
    await page.getByText('A stands twice').waitFor();
    await page.getByLabel('Name of the secret').fill('app');
    await page.getByRole('button', { name: 'Preview 1 secret' }).click();
    await page.getByText('1 new, 0 changed').waitFor();
    await one.axe();
    await page.getByRole('button', { name: 'Write 1 secret' }).click();
    await page.getByRole('heading', { name: 'app' }).waitFor();
    equal((await dev.must('GET', 'secret/data/imp/app'))['data'].data, { A: '3', B: 'two words', C: 'line\nnext' }, 'written');
    await one.go('/ui/s/secret/imp/?tab=import');
    await page.getByLabel('Or paste').fill('one:\n  n: 1.0\n  b: true\ntwo:\n  s: text\n');
    await page.getByRole('button', { name: 'Preview 2 secrets' }).click();
    await page.getByRole('button', { name: 'Write 2 secrets' }).click();
    await page.getByRole('heading', { name: 'one' }).waitFor();
    const raw = await (await fetch(`${dev.base}/v1/secret/data/imp/one`, { headers: { 'X-Vault-Token': 'root' } })).text();
    ok(raw.includes('"n":1.0') && raw.includes('"b":true'), raw);
    await one.go('/ui/s/secret/imp/?tab=import');
    await page.getByLabel('Or paste').fill(JSON.stringify(Object.fromEntries(Array.from({ length: 4097 }, (_, i) => [`s${i}`, { k: 'v' }]))));
    await page.getByRole('button', { name: 'Preview 4,097 secrets' }).click();
    await page.getByText('4,097 secrets: at most 4,096').waitFor();
    await one.go('/ui/s/secret/imp/');
    await page.locator('.detail').getByRole('button', { name: 'Export' }).click();
    const [file] = await Promise.all([page.waitForEvent('download'), page.getByRole('dialog').getByRole('button', { name: 'Export' }).click()]);
    const made = JSON.parse(readFileSync(await file.path(), 'utf8')) as Record<string, unknown>;
    equal(Object.keys(made).sort(), ['app', 'one', 'two'], 'all of the folder');
    equal(made['app'], { A: '3', B: 'two words', C: 'line\nnext' }, 'round trip');
    await one.finish();
  } },
  { name: '13 a folder of 300 is moved after a dry run; deleted with its name typed; undone', run: async ({ browser, dev }) => {
    await dev.must('POST', 'sys/kallisto/kv/write', { writes: Array.from({ length: 300 }, (_, i) => ({ path: `secret/data/bulk/from/s${i}`, data: { k: 'v' } })) });
    const one = await Watched.open(browser, dev);
    const { page } = one;
    await one.login('ops');
    await one.go('/ui/s/secret/bulk/from/');
    await page.getByRole('button', { name: 'Move or copy' }).click();
    await page.getByLabel('To', { exact: true }).fill('secret/bulk/to/');
    await page.getByRole('button', { name: 'See what happens' }).click();
    await page.getByLabel('Type move 300 to go on').fill('move 300');
    await one.axe();
    await page.getByRole('button', { name: 'Move 300 secrets' }).click();
    await until(() => page.url().endsWith('/ui/s/secret/bulk/to/'), 'on to the new place');
    await page.locator('.detail').getByRole('button', { name: 'Delete' }).click();
    await page.getByLabel('Type to to go on').fill('to');
    await page.getByRole('button', { name: 'Delete 300 secrets' }).click();
    await page.getByRole('button', { name: 'Undo' }).click();
    await page.getByText('300 secrets are back').waitFor({ timeout: 30_000 });
    equal((await dev.must('GET', 'secret/data/bulk/to/s299'))['data'].data.k, 'v', 'back');
    await one.finish();
  } },
  { name: '14 environments are compared and missing keys promoted', run: async ({ browser, dev }) => {
    await dev.must('POST', 'secret/data/env/dev', { data: { A: '1', B: '2', C: '3' } });
    await dev.must('POST', 'secret/data/env/prod', { data: { A: '1', B: 'other' } });
    const one = await Watched.open(browser, dev);
    await one.login('ops');
    await one.page.goto('/ui/compare?p=secret/env/dev&p=secret/env/prod&p=secret/env/none');
    await one.page.getByText('differs').first().waitFor();
    await one.axe();
    await one.page.getByRole('button', { name: 'Copy 1 missing key' }).click();
    await one.page.getByRole('dialog').getByRole('button', { name: 'Copy' }).click();
    await one.page.getByText('1 key copied').waitFor();
    equal((await dev.must('GET', 'secret/data/env/prod'))['data'].data, { A: '1', B: 'other', C: '3' }, 'promoted, the rest as it was');
    await one.finish();
  } },
  { name: '15 a secret is found by three letters over mounts; nothing without rights', run: async ({ browser, dev }) => {
    await dev.must('POST', 'kv/int/data/deep/strange', { data: { a: 'b' } });
    const one = await Watched.open(browser, dev);
    await one.login('ops');
    await one.page.keyboard.press('Control+k');
    await one.page.getByRole('combobox').fill('str');
    await one.page.getByRole('option', { name: 'secret/apps/payments/stripe' }).waitFor();
    await one.page.getByRole('option', { name: 'kv/int/deep/strange' }).waitFor();
    await one.axe();
    await one.page.getByRole('option', { name: 'secret/apps/payments/stripe' }).click();
    await one.page.getByRole('heading', { name: 'stripe' }).waitFor();
    await one.finish();
    const two = await Watched.open(browser, dev);
    await two.login('rita');
    await two.go('/ui/find?q=str');
    await two.page.getByText('No name matches').waitFor();
    await two.finish();
  } },
  { name: '16 a link opens once without an account, a look opens nothing, the second opening is told, a withdrawn one opens nothing', run: async ({ browser, dev }) => {
    const one = await Watched.open(browser, dev);
    const { page } = one;
    await one.login('ops');
    const make = async (): Promise<string> => {
      await one.go(STRIPE);
      await page.getByRole('button', { name: 'Share once' }).click();
      await page.getByRole('button', { name: 'Make the link' }).click();
      const link = await page.locator('.link-box code').innerText();
      await page.getByRole('dialog').getByRole('img', { name: 'QR code' }).waitFor();
      await one.axe();
      await page.getByRole('button', { name: 'Done' }).click();
      return link;
    };
    const link = await make();
    ok(/\/ui\/open#/.test(link), link);
    ok(!one.bodies.some((body) => body.includes(PLANTED[0] ?? '')), 'the value never came to the sender');
    equal((await fetch(link)).status, 200, 'a scanner sees the shell');
    const guest = await Watched.open(browser, dev);
    await guest.page.goto(link);
    await guest.page.getByRole('button', { name: 'Open it now' }).waitFor();
    ok(!guest.page.url().includes('#'), 'the token does not stay in the address');
    await guest.axe();
    await guest.page.getByRole('button', { name: 'Open it now' }).click();
    await guest.page.getByRole('button', { name: 'Show', exact: true }).click();
    await guest.page.getByText(PLANTED[0] ?? '').waitFor();
    await guest.finish();
    const late = await Watched.open(browser, dev);
    await late.page.goto(link);
    await late.page.getByText('This link opens nothing any more.').waitFor();
    await late.finish();
    const second = await make();
    await one.go('/ui/shared');
    await page.getByRole('button', { name: 'Withdraw' }).first().click();
    await page.getByText('The link opens nothing any more').waitFor();
    const third = await Watched.open(browser, dev);
    await third.page.goto(second);
    await third.page.getByText('This link opens nothing any more.').waitFor();
    await third.finish();
    await one.finish();
  } },
];
