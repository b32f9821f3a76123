// Lighthouse over the page: `node test/lighthouse.mjs CHROMIUM LIGHTHOUSE_FOLDER [RUNS] [NAME...]`. Run by hand, since a score needs a quiet machine.
//
// Lighthouse is no dependency of the page: install it elsewhere first, `npm install --prefix LIGHTHOUSE_FOLDER --ignore-scripts lighthouse@12.2.3`
// (13 wants Node.js 22.19). A server of the binary is started, filled and stopped; each screen is measured signed in, in the tab of its session, with nothing of it
// in the browser's cache.
// Beside them stands a floor: a page without a script, of one heading, from the same server, by the same settings. What the floor lacks of 100 is the machine's.
// The settings are Lighthouse's own: `mobile` (slow 4G and a quarter of the processor, both simulated) and `desktop`.
import { createServer } from 'node:http';
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { tmpdir } from 'node:os';
import { join, resolve } from 'node:path';
import { pathToFileURL } from 'node:url';
import { spawn } from 'node:child_process';

const [chromium, folder, runsText = '5', ...names] = process.argv.slice(2);
if (!chromium || !folder) throw new Error('usage: node test/lighthouse.mjs CHROMIUM LIGHTHOUSE_FOLDER [RUNS] [NAME...]');
const RUNS = Number(runsText);
const CATEGORIES = ['performance', 'accessibility', 'best-practices'];
const AUDITS = { 'first-contentful-paint': 'FCP', 'largest-contentful-paint': 'LCP', 'speed-index': 'SI', 'total-blocking-time': 'TBT', 'cumulative-layout-shift': 'CLS' };
const OUT = '../target/lighthouse';
const BINARY = process.env.KALLISTO_BINARY ?? '../target/debug/kallisto';

const require = createRequire(join(resolve(folder), 'package.json'));
const load = (name) => import(pathToFileURL(require.resolve(name)).href);
const { default: lighthouse, desktopConfig } = await load('lighthouse');
const { default: puppeteer } = await load('puppeteer-core');

const portOf = (server) => new Promise((done) => server.listen(0, '127.0.0.1', () => done(server.address().port)));
async function freePort() { const probe = createServer(); const port = await portOf(probe); await new Promise((done) => probe.close(done)); return port; }

/** A page without a script: what a perfect one gets here. */
const FLOOR = '<!doctype html><html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width"><meta name="description" content="A floor"><title>Floor</title><link rel="icon" href="data:,"></head><body><main><h1>Floor</h1><p>One heading and one sentence.</p></main></body></html>';

async function fill(base) {
  let token = '';
  const ask = async (method, path, body) => { const reply = await fetch(`${base}/v1/${path}`, { method, headers: { 'X-Vault-Token': token }, body: JSON.stringify(body) }); if (!reply.ok) throw new Error(`${method} ${path}: ${reply.status}`); return reply.status === 204 ? {} : reply.json(); };
  const made = await ask('PUT', 'sys/init', { secret_shares: 1, secret_threshold: 1 });
  await ask('PUT', 'sys/unseal', { key: made.keys[0] });
  token = made.root_token;
  for (let i = 0; ; i += 1) { const { status } = await fetch(`${base}/v1/sys/health`); if (status === 200) break; if (i > 200) throw new Error('no leader'); await new Promise((done) => setTimeout(done, 50)); }
  await ask('POST', 'sys/mounts/secret', { type: 'kv', options: { version: '2' } });
  await ask('PUT', 'sys/policies/acl/admin', { policy: 'path "*" { capabilities = ["create", "read", "update", "patch", "delete", "list", "sudo"] }' });
  await ask('POST', 'sys/auth/userpass', { type: 'userpass', description: 'People', config: { listing_visibility: 'unauth' } });
  await ask('POST', 'auth/userpass/users/ops', { password: 'correct horse battery', token_policies: ['admin'] });
  for (const name of ['mailgun', 'paypal', 'stripe', 'sentry-dsn', 'ledger/db']) await ask('POST', `secret/data/apps/payments/${name}`, { data: { PASSWORD: name } });
}

const median = (list) => [...list].sort((a, b) => a - b)[list.length >> 1];
const port = await freePort();
const home = mkdtempSync(join(tmpdir(), 'kallisto-lighthouse-'));
const base = `http://127.0.0.1:${port}`;
// On disk, since a server in memory has no cluster to show.
writeFileSync(join(home, 'server.hcl'), `ui = true\nstorage "raft" {\n  path = "${home}/data"\n  node_id = "one"\n}\nlistener "tcp" {\n  address = "127.0.0.1:${port}"\n  cluster_address = "127.0.0.1:${await freePort()}"\n  tls_disable = true\n}\napi_addr = "${base}"\n`);
const child = spawn(BINARY, ['server', `-config=${home}/server.hcl`], { stdio: 'ignore', env: { PATH: process.env.PATH, HOME: home, ...(process.env.KALLISTO_UI_DIR ? { KALLISTO_UI_DIR: process.env.KALLISTO_UI_DIR } : {}) } });
const still = createServer((_, reply) => reply.writeHead(200, { 'Content-Type': 'text/html; charset=utf-8' }).end(FLOOR));
const floor = `http://127.0.0.1:${await portOf(still)}/`;
const browser = await puppeteer.launch({ executablePath: chromium, args: ['--no-sandbox', '--disable-gpu', '--no-first-run', '--disable-background-networking', '--disable-component-update'] });
try {
  for (let i = 0; ; i += 1) { try { await fetch(`${base}/v1/sys/seal-status`); break; } catch { if (i > 200) throw new Error('the server did not start'); await new Promise((done) => setTimeout(done, 50)); } }
  await fill(base);
  mkdirSync(OUT, { recursive: true });
  const all = [['floor', floor], ['login', `${base}/ui/login`], ['folder', `${base}/ui/s/secret/apps/payments/`], ['cluster', `${base}/ui/cluster`]].filter(([name]) => names.length === 0 || names.includes(name));
  console.log(`median of ${RUNS}\tform\t${CATEGORIES.join('\t')}\t${Object.values(AUDITS).join('\t')}`);
  for (const form of ['mobile', 'desktop']) {
    for (const [name, url] of all) {
      const found = [];
      for (let run = 0; run < RUNS; run += 1) {
        const context = await browser.createBrowserContext();
        const page = await context.newPage();
        if (name !== 'floor' && name !== 'login') {
          await page.goto(`${base}/ui/login`);
          await page.locator('::-p-aria([name="People"][role="button"])').click();
          await page.locator('::-p-aria([name="User name"])').fill('ops');
          await page.locator('::-p-aria([name="Password"])').fill('correct horse battery');
          await page.locator('::-p-aria([name="Sign in"][role="button"])').click();
          await page.waitForSelector('.app');
        }
        const { lhr, report } = await lighthouse(url, { onlyCategories: CATEGORIES, output: 'html', logLevel: 'error' }, form === 'desktop' ? desktopConfig : undefined, page);
        if (lhr.runtimeError) throw new Error(`${name}: ${lhr.runtimeError.message}`);
        found.push(lhr);
        writeFileSync(join(OUT, `${name}-${form}.html`), report);
        writeFileSync(join(OUT, `${name}-${form}.json`), JSON.stringify(lhr, null, 1));
        await context.close();
      }
      const score = (key) => Math.round(100 * median(found.map((one) => one.categories[key].score ?? 0)));
      const time = (key) => { const value = median(found.map((one) => one.audits[key].numericValue)); return key.endsWith('shift') ? value.toFixed(3) : `${Math.round(value)} ms`; };
      console.log([name, form, ...CATEGORIES.map(score), ...Object.keys(AUDITS).map(time)].join('\t'));
      // What is not full, so that nobody has to open the report.
      for (const id of new Set(found.flatMap((one) => CATEGORIES.slice(1).flatMap((key) => one.categories[key].auditRefs.filter((ref) => ref.weight > 0 && one.audits[ref.id].score !== null && one.audits[ref.id].score < 1).map((ref) => ref.id))))) console.log(`  not met: ${id}`);
    }
  }
} finally {
  await browser.close();
  still.close();
  child.kill('SIGKILL');
  rmSync(home, { recursive: true, force: true });
}
