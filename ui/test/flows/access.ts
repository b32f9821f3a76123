// Flows 5, 17, 20, 22, 26, 27: rights that are missing, policies, audit, metrics, namespaces, strange names.
import { mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { createHash } from 'node:crypto';
import { join } from 'node:path';
import { Watched } from '../browser.ts';
import { equal, ok, until } from '../assert.ts';
import { Server } from '../server.ts';
import type { Flow } from './index.ts';

const CHAIN_LINES = 100_000;
const EDITED = 73_001;
/** A sound chain of so many lines, as docs/format.md says. */
function chained(lines: number): string[] {
  let prev = '0'.repeat(64);
  return Array.from({ length: lines }, (_, i) => {
    const covered = `{"type":"request","body":"body-${i}","chain":{"seq":${i + 1},"prev":"${prev}`;
    prev = createHash('sha256').update(covered).digest('hex');
    return `${covered}","hash":"${prev}"}}`;
  });
}

export const access: Flow[] = [
  { name: '5 a reader without list goes to a path; a writer who may not read patches unseen; a missing right says why', run: async ({ browser, dev }) => {
    const one = await Watched.open(browser, dev);
    await one.login('rita');
    equal(await one.page.getByRole('link', { name: 'Policies' }).count(), 0, 'what nobody with these rights could use is left out');
    await one.go('/ui/s/secret/apps/payments/stripe');
    await one.page.getByText('You may not list this folder.').waitFor();
    await one.page.getByRole('button', { name: 'Delete' }).click({ force: true });
    await one.page.getByText('Why not delete?').waitFor();
    await one.axe();
    await one.page.getByRole('button', { name: 'Close' }).click();
    await one.finish();
    const two = await Watched.open(browser, dev);
    await two.login('walt');
    await two.go('/ui/s/secret/apps/payments/mailgun?tab=edit');
    await two.page.getByText('You may not read this secret.').waitFor();
    await two.page.getByLabel('Key', { exact: true }).fill('ADDED');
    await two.page.getByLabel('Value of ADDED').fill('unseen');
    await two.page.getByRole('button', { name: 'Save', exact: true }).click();
    await two.page.getByText('Saved', { exact: true }).waitFor();
    const { data } = await dev.must('GET', 'secret/data/apps/payments/mailgun');
    equal(Object.keys(data.data).sort(), ['ADDED', 'PASSWORD'], 'the others stay');
    await two.finish();
  } },
  { name: '17 a policy shows its error at the line, the simulator takes the draft, and tells what would change', run: async ({ browser, dev }) => {
    const one = await Watched.open(browser, dev);
    const { page } = one;
    await one.login('ops');
    await one.go('/ui/policies/dev');
    const text = page.getByLabel('Text of dev');
    await text.fill('path "secret/data/apps/*" {\n  capabilities = ["read", "updat"]\n}\n');
    await page.locator('.probs .e').getByText('Line 2').waitFor();
    await text.fill('path "secret/data/apps/payments/*" {\n  capabilities = ["read", "delete"]\n}\n');
    await page.getByRole('button', { name: /^delete on secret\/data\/apps\/payments\/example: allowed, new/ }).waitFor();
    await page.getByRole('button', { name: /^create on secret\/data\/apps\/payments\/example: not allowed, taken away/ }).click();
    await page.getByText('draft, not saved').waitFor();
    await one.axe();
    await page.getByLabel('Path', { exact: true }).or(page.getByLabel('Another path')).first().fill('sys/mounts');
    await page.getByRole('button', { name: 'Add', exact: true }).click();
    await page.getByRole('button', { name: /read on sys\/mounts/ }).waitFor();
    await text.fill((await dev.must('GET', 'sys/policies/acl/dev'))['data'].policy);
    await one.finish();
  } },
  { name: '20 an audit chain is verified in the browser, and an edited line found at its place', run: async ({ browser, dev }) => {
    const file = join(dev.folder, 'audit.log');
    const lines = readFileSync(file, 'utf8').trimEnd().split('\n');
    const copy = join(dev.folder, 'copy.log');
    writeFileSync(copy, lines.join('\n') + '\n');
    const edited = join(dev.folder, 'edited.log');
    const at = Math.floor(lines.length / 2);
    writeFileSync(edited, lines.map((line, i) => (i === at ? line.replace('"type":"re', '"type":"rE') : line)).join('\n') + '\n');
    const one = await Watched.open(browser, dev);
    await one.login('ops');
    await one.go('/ui/audit');
    const choose = one.page.locator('input[type=file]');
    await choose.setInputFiles(copy);
    await one.page.getByText(/The chain holds to/).waitFor();
    await one.axe();
    await choose.setInputFiles(edited);
    await one.page.getByText(new RegExp(`line ${(at + 1).toLocaleString('en')}\\)`)).waitFor();
    // A long file, whole and with one line edited.
    const long = chained(CHAIN_LINES);
    const whole = join(dev.folder, 'long.log');
    writeFileSync(whole, long.join('\n') + '\n');
    const begin = Date.now();
    await choose.setInputFiles(whole);
    await one.page.getByText(`The chain holds to ${CHAIN_LINES.toLocaleString('en')}`).waitFor({ timeout: 60_000 });
    console.log(`        ${CHAIN_LINES.toLocaleString('en')} lines verified in ${Date.now() - begin} ms`);
    long[EDITED - 1] = (long[EDITED - 1] ?? '').replace('"body-', '"bodY-');
    const broken = join(dev.folder, 'long-edited.log');
    writeFileSync(broken, long.join('\n') + '\n');
    await choose.setInputFiles(broken);
    await one.page.getByText(`The chain breaks at record ${EDITED.toLocaleString('en')}`).waitFor({ timeout: 60_000 });
    // The lines that the server streams, to its head; then records as they are written, and a value found by its mask.
    await one.page.getByRole('button', { name: 'Verify the device file', exact: true }).click();
    await one.page.getByText('It reaches the head that the server states.').waitFor();
    await one.page.getByRole('button', { name: 'Follow', exact: true }).click();
    await one.page.getByRole('button', { name: 'Following' }).waitFor();
    await one.page.waitForTimeout(300);
    await dev.must('POST', 'secret/data/followed/one', { data: { K: 'a-known-value' } });
    const records = one.page.getByRole('region', { name: 'Records' });
    await records.getByText('secret/data/followed/one').first().waitFor({ timeout: 3000 });
    await one.page.getByRole('button', { name: 'Following' }).click();
    await one.page.getByLabel('Known value').fill('a-known-value');
    await one.page.getByRole('button', { name: 'Filter', exact: true }).click();
    await one.page.waitForFunction(() => [...document.querySelectorAll('[aria-label=Records] tbody tr')].every((row) => row.textContent?.includes('followed/one')));
    await records.getByText('secret/data/followed/one').first().waitFor();
    await one.finish();
  } },
  { name: '22 metrics are live, and tables too', run: async ({ browser, dev }) => {
    const one = await Watched.open(browser, dev);
    await one.login('ops');
    await one.go('/ui/metrics');
    // The server remembers an hour: how many there are at first depends on how long it runs.
    await one.page.getByText(/(^|\D)([3-9]|[1-9]\d+) samples/).waitFor({ timeout: 20_000 });
    await one.page.getByRole('button', { name: 'Requests per second as a table' }).click();
    await one.page.getByRole('columnheader', { name: 'requests' }).waitFor();
    await one.finish();
  } },
  { name: '26 a namespace is switched, rights asked anew, the route keeps it; 27 a mount with a slash, names with ?#% é', run: async ({ browser, dev }) => {
    await dev.must('POST', 'sys/mounts/inner', { type: 'kv', options: { version: '2' } }, 'root', 'team');
    await dev.must('POST', 'inner/data/a', { data: { k: 'v' } }, 'root', 'team');
    const strange = 'what?#% é';
    await dev.must('POST', `kv/int/data/${encodeURIComponent(strange)}`, { data: { k: 'v' } });
    const one = await Watched.open(browser, dev);
    const { page } = one;
    await one.login('root');
    await page.getByRole('button', { name: /Namespace/ }).click();
    await page.getByRole('dialog').getByRole('button', { name: 'team' }).click();
    await one.go('/ui/s/?ns=team');
    await page.getByRole('link', { name: /inner/ }).click();
    ok(page.url().includes('ns=team'), page.url());
    await page.getByRole('option', { name: 'a' }).waitFor();
    await one.go('/ui/s/kv/int/');
    await page.getByRole('option', { name: strange }).click();
    await page.getByRole('heading', { name: strange }).waitFor();
    ok(page.url().includes(encodeURIComponent(strange)), page.url());
    await page.getByRole('button', { name: 'Reveal k' }).click();
    await page.locator('.shown').waitFor();
    await one.finish();
  } },
  { name: '21 three servers: the leader is killed, the map shows the next, an open form goes on', run: async ({ browser }) => {
    const servers = await Server.cluster();
    try {
      const one = servers[0] as Server;
      await one.must('POST', 'sys/mounts/secret', { type: 'kv', options: { version: '2' } });
      await one.must('PUT', 'sys/policies/acl/admin', { policy: 'path "*" { capabilities = ["create", "read", "update", "patch", "delete", "list", "sudo"] }' });
      await one.must('POST', 'sys/auth/userpass', { type: 'userpass', description: 'People', config: { listing_visibility: 'unauth' } });
      await one.must('POST', 'auth/userpass/users/ops', { password: 'correct horse battery', token_policies: ['admin'] });
      await until(async () => ((await one.api('GET', 'sys/storage/raft/autopilot/state'))['data']?.failure_tolerance ?? 0) === 1, 'three voters', 30_000);
      // Every member says itself how it is, sealed or not; the server that is asked gathers it.
      const all = (await one.must('GET', 'sys/kallisto/cluster'))['data'];
      equal(all.members.map((member: { answered: boolean }) => member.answered), [true, true, true], JSON.stringify(all));
      for (const member of all.members as Record<string, any>[]) ok(member['memory'] > 0 && member['disk'].total > 0 && member['uptime'] >= 0 && Math.abs(member['clock_ms']) < 500 && member['sealed'] === false, JSON.stringify(member));
      // Whoever leads by now is the one to be killed; the others are looked at.
      const leader = (await one.must('GET', 'sys/storage/raft/autopilot/state'))['data'].leader as string;
      const [two, three] = servers.filter((_, i) => `kallisto-${i + 1}` !== leader) as [Server, Server];
      const map = await Watched.open(browser, two);
      await map.login('ops');
      await map.go('/ui/cluster');
      await map.page.getByRole('img', { name: new RegExp(`${leader} leads`) }).waitFor();
      await map.axe();
      mkdirSync('../target/ui-shots', { recursive: true });
      await map.page.screenshot({ path: '../target/ui-shots/cluster-three.png' });
      const form = await Watched.open(browser, three);
      await form.login('ops');
      await form.page.goto('/ui/s/secret/made?tab=edit');
      await form.page.getByLabel('Key', { exact: true }).fill('K');
      await form.page.getByLabel('Value of K').fill('v');
      servers[Number(leader.at(-1)) - 1]?.child.kill('SIGKILL');
      await form.page.getByRole('button', { name: 'Save', exact: true }).click();
      await form.page.getByText('Secret made').waitFor({ timeout: 30_000 });
      await map.page.getByRole('img', { name: new RegExp(`^(?!${leader})kallisto-\\d leads`) }).waitFor({ timeout: 30_000 });
      await map.page.getByText(`${leader} does not answer.`).waitFor({ timeout: 30_000 });
      await map.page.locator('tr', { hasText: leader }).getByRole('button', { name: `Remove ${leader}` }).click();
      await map.page.getByText('none may fail then').waitFor();
      await map.page.getByRole('dialog').getByRole('button', { name: 'Cancel' }).click();
      await form.finish();
      await map.finish();
    } finally { for (const server of servers) server.stop(); }
  } },
];
