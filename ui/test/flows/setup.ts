// Flows 1 and 24: setup with shares, unsealing by several people, sealed in the middle of work.
import { readFileSync } from 'node:fs';
import { Watched } from '../browser.ts';
import { equal, ok, until } from '../assert.ts';
import { Server } from '../server.ts';
import type { Flow } from './index.ts';

export const setup: Flow[] = [{ name: '1 setup with 5 shares of which 3 are needed, unseal in two browsers, a wrong share, reset', run: async ({ browser }) => {
  const server = await Server.durable();
  try {
    const one = await Watched.open(browser, server);
    const { page } = one;
    await page.goto('/ui/');
    await page.getByRole('heading', { name: 'Set up Kallisto' }).waitFor();
    await one.axe();
    await page.getByRole('button', { name: 'Make the cluster' }).click();
    const shares: string[] = [];
    for (let i = 1; i <= 5; i += 1) {
      await page.getByRole('heading', { name: `Share ${i} of 5` }).waitFor();
      const [download] = await Promise.all([page.waitForEvent('download'), page.getByRole('button', { name: 'Download' }).click()]);
      ok(download.suggestedFilename().startsWith(`kallisto-share-${i}-of-5-`), download.suggestedFilename());
      shares.push(readFileSync(await download.path(), 'utf8').trim().split('\n').at(-1) ?? '');
      await page.getByRole('button', { name: i < 5 ? 'Next share' : 'On to the root token' }).click();
    }
    equal(new Set(shares).size, 5, 'each file has its own share');
    await page.getByRole('heading', { name: 'The root token' }).waitFor();
    const [file] = await Promise.all([page.waitForEvent('download'), page.getByRole('button', { name: 'Download' }).click()]);
    const root = readFileSync(await file.path(), 'utf8').trim();
    await page.getByRole('button', { name: 'Done' }).click();
    await page.getByRole('link', { name: 'Unseal now' }).click();
    await page.getByRole('heading', { name: 'This server is sealed' }).waitFor();
    const two = await Watched.open(browser, server);
    await two.page.goto('/ui/');
    await two.page.getByRole('heading', { name: 'This server is sealed' }).waitFor();
    const give = async (who: Watched, share: string): Promise<void> => { await who.page.getByLabel('Your share').fill(share); await who.page.getByRole('button', { name: 'Enter the share' }).click(); };
    await give(one, shares[0] ?? '');
    await two.page.getByText('1 of 3 shares entered').waitFor();
    await give(two, shares[1] ?? '');
    await one.page.getByText('2 of 3 shares entered').waitFor();
    const wrong = Buffer.from(shares[2] ?? '', 'base64');
    wrong[0] = (wrong[0] ?? 0) ^ 0xff;
    await give(one, wrong.toString('base64'));
    await one.page.getByText('nobody can say which').waitFor();
    await give(one, shares[4] ?? '');
    await one.page.getByRole('button', { name: 'Start again' }).click();
    await one.page.getByText('0 of 3 shares entered').waitFor();
    for (const share of shares.slice(1, 4)) await give(one, share);
    await one.page.getByRole('heading', { name: 'Sign in to Kallisto' }).waitFor();
    await two.page.getByRole('heading', { name: 'Sign in to Kallisto' }).waitFor();
    // Sealed in the middle of reading: unseal elsewhere, come back.
    server.token = root;
    await until(async () => (await server.api('GET', 'sys/mounts'))['status'] === 200, 'the server answers');
    await server.must('POST', 'sys/mounts/secret', { type: 'kv', options: { version: '2' } });
    await server.must('POST', 'secret/data/a', { data: { k: 'v' } });
    await server.must('PUT', 'sys/seal');
    await one.page.goto('/ui/s/secret/a');
    await one.page.getByRole('heading', { name: 'This server is sealed' }).waitFor();
    ok(one.page.url().includes('to='), 'the way back is kept');
    for (const share of shares.slice(0, 3)) await server.api('PUT', 'sys/unseal', { key: share }, '');
    await one.page.getByRole('heading', { name: 'Sign in to Kallisto' }).waitFor();
    ok(one.page.url().includes('/ui/s/secret/a'), 'on to where one wanted');
    await two.finish();
    await one.finish();
  } finally { server.stop(); }
} }, { name: '24 sealed in the middle of an edit: unseal in its place, come back, save', run: async ({ browser }) => {
  const server = await Server.durable();
  try {
    const made = await server.must('PUT', 'sys/init', { secret_shares: 3, secret_threshold: 2 }, '');
    const shares = made['keys_base64'] as string[];
    server.token = made['root_token'] as string;
    const unseal = async (): Promise<void> => { for (const share of shares.slice(0, 2)) await server.api('PUT', 'sys/unseal', { key: share }, ''); await until(async () => (await server.api('GET', 'sys/mounts'))['status'] === 200, 'the server answers'); };
    await unseal();
    await server.must('POST', 'sys/mounts/secret', { type: 'kv', options: { version: '2' } });
    await server.must('POST', 'secret/data/a', { data: { k: 'v' } });
    await server.must('PUT', 'sys/policies/acl/dev', { policy: 'path "secret/*" { capabilities = ["create", "read", "update", "list"] }' });
    await server.must('POST', 'sys/auth/userpass', { type: 'userpass', description: 'People', config: { listing_visibility: 'unauth' } });
    await server.must('POST', 'auth/userpass/users/ada', { password: 'correct horse battery', token_policies: ['dev'] });
    const one = await Watched.open(browser, server);
    const { page } = one;
    await one.login('ada');
    await one.go('/ui/s/secret/a?tab=edit');
    await page.getByLabel('Value of k').fill('half-typed');
    await server.must('PUT', 'sys/seal');
    await page.getByRole('button', { name: 'Save', exact: true }).click();
    await page.getByRole('dialog').getByRole('button', { name: 'Save', exact: true }).click();
    await page.getByRole('dialog', { name: 'The server is sealed' }).waitFor();
    ok(page.url().endsWith('/ui/s/secret/a?tab=edit'), 'the page was not left');
    await one.axe();
    // One share here, one by somebody else.
    await page.getByLabel('Your share').fill(shares[0] ?? '');
    await page.getByRole('button', { name: 'Enter the share' }).click();
    await page.getByText('1 of 2 shares entered').waitFor();
    await server.must('PUT', 'sys/unseal', { key: shares[1] }, '');
    await page.locator('.cover').waitFor({ state: 'detached' });
    equal(await page.getByLabel('Value of k').inputValue(), 'half-typed', 'the edit is kept');
    equal(await page.getByText('is sealed').count(), 0, 'no word of it stays');
    await page.getByRole('button', { name: 'Save', exact: true }).click();
    await page.getByRole('dialog').getByRole('button', { name: 'Save', exact: true }).click();
    await page.getByText('Saved', { exact: true }).waitFor();
    equal((await server.must('GET', 'secret/data/a'))['data'].data, { k: 'half-typed' }, 'what was typed is stored');
    await one.finish();
  } finally { server.stop(); }
} }];
