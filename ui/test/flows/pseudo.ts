// Flow 28, its part of words: a page whose texts are all of another language shows which ones are not in `src/en/`, and what is too narrow for longer ones.
import { execFileSync } from 'node:child_process';
import { resolve } from 'node:path';
import { ok } from '../assert.ts';
import { Watched } from '../browser.ts';
import { Server } from '../server.ts';
import type { Flow } from './index.ts';
import { SCREENS } from './screens.ts';
import { seed } from './seed.ts';

const FOLDER = resolve('../target/ui-pseudo');
/** What is the same in every language: names of products, formats, units, keys, and what `Intl` writes. */
const SAME = new Set('Kallisto GET POST PUT PATCH DELETE LIST CLI curl Kubernetes Terraform Python Node Go Java Rust JSON YAML CSV HCL env OIDC JWT LDAP TLS AppRole userpass approle TOTP QR URL API Ctrl Enter Esc PromQL UTC CORS Jan Feb Mar Apr May Jun Jul Aug Sep Sept Oct Nov Dec min ago days hours minutes seconds kB MB GB ms bytes'.split(' '));

/** Words of the screen that no text of the page and no answer of the server has. */
async function untranslated(one: Watched): Promise<string[]> {
  const texts = await one.page.evaluate(() => {
    const found: string[] = [];
    const asIs = 'noscript, .mono, code, pre, kbd, time, svg, option, textarea, script, style, [data-as-is]';
    const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
    for (let node = walker.nextNode(); node; node = walker.nextNode()) if (!node.parentElement?.closest(asIs)) found.push(node.nodeValue ?? '');
    for (const element of document.querySelectorAll('[aria-label], [title], [placeholder]')) for (const name of ['aria-label', 'title', 'placeholder']) { const text = element.getAttribute(name); if (text && !element.classList.contains('mono') && !element.closest('.plot, .topo')) found.push(text); }
    return found;
  });
  // Names of the address are data too.
  const known = `${one.bodies.join(' ')} ${decodeURIComponent(one.page.url())}`;
  const rest = new Set<string>();
  for (const text of texts) {
    let bare = text;
    // Texts with texts in them are brackets within brackets.
    for (let before = ''; before !== bare;) { before = bare; bare = bare.replace(/\u27e6[^\u27e6\u27e7]*\u27e7/g, ' '); }
    const words = bare.match(/\p{L}{3,}/gu) ?? [];
    if (words.some((word) => !SAME.has(word) && !known.includes(word))) rest.add(bare.trim().slice(0, 80));
  }
  return [...rest];
}

export const pseudo: Flow[] = [{ name: '28 pseudo-locale: every text is in src/en, and longer words fit', run: async ({ browser }) => {
  execFileSync('node', ['build.mjs', FOLDER, '--pseudo'], { stdio: 'inherit' });
  const server = await Server.dev(FOLDER);
  try {
    await seed(server);
    const { auth } = await server.must('POST', 'auth/userpass/login/ops', { password: 'correct horse battery' }, '');
    const left: string[] = [];
    for (const phone of [false, true]) {
      const one = await Watched.open(browser, server, { phone });
      await one.page.goto('/ui/login');
      await one.page.locator('form button[type=submit]').first().waitFor();
      left.push(...(await untranslated(one)).map((text) => `login: ${text}`));
      await one.page.evaluate((kept) => sessionStorage.setItem('kallisto.session', kept), JSON.stringify({ token: auth.client_token, isOurs: false, mount: '' }));
      await one.page.goto('/ui/');
      await one.page.locator('.app').waitFor();
      for (const [name, path] of SCREENS) {
        await one.go(path);
        await one.page.waitForTimeout(300);
        await one.page.locator('[aria-busy=true]').first().waitFor({ state: 'detached', timeout: 4000 }).catch(() => undefined);
        if (!phone) left.push(...(await untranslated(one)).map((text) => `${name}: ${text}`));
        const wide = await one.page.evaluate(() => document.documentElement.scrollWidth - innerWidth);
        if (wide > 0) left.push(`${name}: ${wide} px too wide${phone ? ' at 390 px' : ''}`);
      }
      await one.finish();
    }
    ok(left.length === 0, `\n    ${[...new Set(left)].join('\n    ')}`);
  } finally { server.stop(); }
} }];
