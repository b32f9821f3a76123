// A newcomer with the root token of a server in memory: makes a secret, changes it, finds it by three letters, compares its versions, shares it once; and
// somebody without the right learns from the dashed button why it is dashed.
import { Watched } from '../browser.ts';
import { equal, ok } from '../assert.ts';
import { Server } from '../server.ts';
import type { Flow } from './index.ts';

export const newcomer: Flow[] = [{ name: 'a newcomer makes a secret, finds it by three letters, compares two versions, shares it once, and learns why a button is dashed', run: async ({ browser }) => {
  const server = await Server.dev();
  try {
    const one = await Watched.open(browser, server);
    const { page } = one;
    await page.goto('/');
    await page.getByLabel('Token').fill('root');
    await page.keyboard.press('Enter');
    await page.getByRole('link', { name: 'Browse secrets' }).click();
    await page.getByRole('link', { name: /^secret\// }).click();
    await page.getByRole('button', { name: 'New secret' }).first().click();
    await page.getByLabel('Name').fill('apps/payments/stripe');
    await page.keyboard.press('Enter');
    await page.getByLabel('Key', { exact: true }).waitFor();
    ok(await page.getByRole('button', { name: 'Save', exact: true }).isDisabled(), 'nothing is saved of nothing');
    await page.getByLabel('Key', { exact: true }).fill('API_KEY');
    await page.getByLabel('Value of API_KEY').fill('one');
    await page.getByRole('button', { name: 'Save', exact: true }).click();
    const row = page.getByRole('option', { name: /stripe/ });
    await row.getByText('v1').waitFor();
    await page.getByRole('button', { name: 'Edit' }).or(page.getByRole('link', { name: 'Edit' })).first().click();
    await page.getByLabel('Value of API_KEY').fill('two');
    await page.getByRole('button', { name: 'Save', exact: true }).click();
    await page.getByRole('dialog').getByRole('button', { name: 'Save', exact: true }).click();
    // The list beside it knows of the new version too.
    await row.getByText('v2').waitFor();
    await page.keyboard.press('Control+k');
    await page.getByRole('combobox').waitFor();
    await page.keyboard.type('str');
    await page.getByRole('option', { name: 'secret/apps/payments/stripe' }).waitFor();
    await page.keyboard.press('Enter');
    await page.getByRole('link', { name: 'History' }).first().click();
    await page.getByText('1 changed').waitFor();
    await page.getByRole('button', { name: 'Share once' }).click();
    await page.getByRole('button', { name: 'Make the link' }).click();
    const link = (await page.locator('.link-box code').innerText()).trim();
    await one.finish();
    const reader = await Watched.open(browser, server);
    await reader.page.goto(link);
    await reader.page.getByRole('button', { name: 'Open it now' }).click();
    await reader.page.getByText('API_KEY').waitFor();
    await reader.finish();
    // Somebody who may read and no more.
    await server.must('PUT', 'sys/policies/acl/reads', { policy: 'path "secret/data/apps/payments/*" { capabilities = ["read"] }\npath "secret/metadata/*" { capabilities = ["list", "read"] }\npath "secret/subkeys/*" { capabilities = ["read"] }' });
    const { auth } = await server.must('POST', 'auth/token/create', { policies: ['reads'], display_name: 'newcomer', ttl: '1h' });
    const two = await Watched.open(browser, server);
    await two.page.goto('/ui/s/secret/apps/payments/stripe');
    await two.page.getByLabel('Token').fill(auth.client_token as string);
    await two.page.keyboard.press('Enter');
    const button = two.page.getByRole('button', { name: 'Delete' });
    await two.page.locator('button.refused', { hasText: 'Delete' }).waitFor();
    equal(await button.evaluate((element) => getComputedStyle(element).borderTopStyle), 'dashed', 'what lacks a right is dashed');
    await button.click({ force: true });
    await two.page.getByText('Why not delete?').waitFor();
    await two.page.getByText('reads', { exact: true }).first().waitFor();
    await two.finish();
  } finally { server.stop(); }
} }];
