// Flow 4 and the budgets: what is loaded, and how quick 100,000 names are.
import { readdirSync, readFileSync, statSync } from 'node:fs';
import { join } from 'node:path';
import { Watched } from '../browser.ts';
import { equal, ok } from '../assert.ts';
import type { Flow } from './index.ts';
import { MANY, seedMany } from './seed.ts';

const DIST = '../crates/ui/dist';
/** Packed bytes of a file as it is served. */
const packed = (name: string): number => { const path = join(DIST, 'assets', name); try { return statSync(`${path}.gz`).size; } catch { return statSync(path).size; } };

export const budgets: Flow[] = [
  { name: 'budget: all of the page is under 400 kB packed, the font under 25 kB', run: async () => {
    const files = readdirSync(join(DIST, 'assets')).filter((name) => !/\.(br|gz)$/.test(name));
    const total = files.reduce((sum, name) => sum + packed(name), 0);
    ok(total < 400_000, `${total} bytes`);
    const font = files.find((name) => name.endsWith('.woff2')) ?? '';
    ok(packed(font) < 25_000, 'font');
    ok(!files.some((name) => readFileSync(join(DIST, 'assets', name)).includes('sourceMappingURL')), 'no source maps');
    console.log(`        all ${(total / 1000).toFixed(1)} kB packed`);
  } },
  { name: 'budget: login loads under 60 kB packed, the secret browser under 100 kB; a secret opens by at most 3 requests', run: async ({ browser, dev }) => {
    const one = await Watched.open(browser, dev);
    const loaded = (): number => [...new Set(one.urls.filter((url) => url.includes('/ui/assets/')).map((url) => url.split('/').pop() ?? ''))].reduce((sum, name) => sum + packed(name), 0);
    await one.page.goto('/ui/login');
    await one.page.getByRole('button', { name: 'Sign in', exact: true }).waitFor();
    const first = loaded();
    await one.login('ada');
    await one.go('/ui/s/secret/apps/payments/');
    await one.page.getByRole('option', { name: 'paypal' }).waitFor();
    await one.page.waitForTimeout(500);
    const before = one.urls.length;
    await one.page.getByRole('option', { name: 'stripe' }).first().click();
    await one.page.getByRole('button', { name: 'Reveal API_KEY' }).waitFor();
    await one.page.waitForTimeout(300);
    const asked = one.urls.slice(before).filter((url) => url.includes('/v1/'));
    const browse = loaded();
    console.log(`        login ${(first / 1000).toFixed(1)} kB, secret browser ${(browse / 1000).toFixed(1)} kB packed; ${asked.length} requests on opening`);
    if (!process.env['KALLISTO_UI_DIR']) { ok(first < 60_000, `login ${first} bytes`); ok(browse < 100_000, `browser ${browse} bytes`); }
    // Names, metadata and the rights that its buttons need.
    ok(asked.length <= 4, asked.join(' '));
    await one.finish();
  } },
  { name: '4 100,000 names: first paint, filter under 100 ms, scroll to the end, type-ahead', run: async ({ browser, dev }) => {
    await seedMany(dev);
    const one = await Watched.open(browser, dev);
    const { page } = one;
    await one.login('ops');
    const start = Date.now();
    await one.go('/ui/s/secret/many/');
    await page.getByRole('option', { name: 'svc-000000' }).waitFor();
    const paint = Date.now() - start;
    await page.getByText(`${MANY.toLocaleString('en')} secrets`).waitFor({ timeout: 20_000 });
    const all = Date.now() - start;
    const worst = await page.evaluate(async () => {
      const input = document.querySelector<HTMLInputElement>('.tools input');
      // Of each key the best of five, since the machine may do other things meanwhile; of the keys the worst.
      const best = new Map<string, number>();
      for (let round = 0; round < 5; round += 1) {
        for (const text of ['0', '09', '099', '0999', '09999', '0999', '099', '9', '']) {
          const begin = performance.now();
          if (input) { input.value = text; input.dispatchEvent(new Event('input', { bubbles: true })); }
          await new Promise((resolve) => requestAnimationFrame(() => setTimeout(resolve)));
          best.set(text, Math.min(best.get(text) ?? Infinity, performance.now() - begin));
        }
      }
      return Math.max(...best.values());
    });
    console.log(`        first name ${paint} ms, all ${all} ms, filter at worst ${worst.toFixed(0)} ms`);
    ok(worst < 100, `a key in the filter took ${worst} ms`);
    const rows = page.locator('.rows');
    await rows.focus();
    await page.keyboard.press('End');
    await page.getByRole('option', { name: 'svc-099999' }).waitFor();
    equal(await rows.getByRole('option').first().getAttribute('aria-setsize'), String(MANY), 'size is told');
    ok((await rows.getByRole('option').count()) < 80, 'only what is in view is in the document');
    await one.finish();
  } },
];
