// A page under watch: every console message, foreign request, CSP report and planted value is a failure; `finish` adds axe.
import { readFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { type Browser, type BrowserContext, chromium, type Page } from 'playwright-core';
import type { Server } from './server.ts';

const require = createRequire(import.meta.url);
const axeSource = readFileSync(require.resolve('axe-core/axe.min.js'), 'utf8');
const ARGS = ['--no-sandbox', '--disable-gpu', '--disable-quic', '--no-first-run', '--disable-background-networking', '--disable-component-update', '--disable-sync'];
/** What Chromium itself says of each answer above 399, which a page cannot help. */
const REFUSED = /^Failed to load resource: the server responded with a status of \d+/;
/** Values that were put into secrets: they may stand on the screen, and nowhere else. */
export const PLANTED = ['sk_live_planted_7531', 'whsec_planted_8642', 'correct horse battery'];

/** Forms that were sent in this run: how often, and what the first answer after it was. */
export const SENT = new Map<string, { sent: number; taken: number; refused: number }>();
/** What the page asks for by itself, whatever was sent. */
const OWN = /\/v1\/(sys\/(capabilities-self|internal\/ui\/|seal-status|policies\/check|kallisto\/kv\/(watch|list)|kallisto\/metrics)|auth\/token\/lookup-self)/;

export const launch = (executablePath: string): Promise<Browser> => chromium.launch({ executablePath, args: ARGS });

export class Watched {
  readonly faults: string[] = [];
  readonly urls: string[] = [];
  readonly methods: string[] = [];
  readonly bodies: string[] = [];
  /** Another server that the page may go to: an identity provider. */
  also = '';
  private constructor(readonly context: BrowserContext, readonly page: Page, readonly base: string) {}

  static async open(browser: Browser, server: Server, options: { phone?: boolean; dark?: boolean; reduced?: boolean; permissions?: string[] } = {}): Promise<Watched> {
    const context = await browser.newContext({ baseURL: server.base, viewport: options.phone ? { width: 390, height: 844 } : { width: 1440, height: 900 }, colorScheme: options.dark ? 'dark' : 'light', reducedMotion: options.reduced ? 'reduce' : 'no-preference', acceptDownloads: true });
    await context.grantPermissions(['clipboard-read', 'clipboard-write'], { origin: server.base });
    return new Watched(context, await context.newPage(), server.base).watch();
  }

  watch(page = this.page): this {
    page.on('console', (message) => { if (!REFUSED.test(message.text())) this.faults.push(`console: ${message.text()}`); });
    page.on('pageerror', (error) => this.faults.push(`error: ${error.message}`));
    page.on('request', (request) => { this.urls.push(request.url()); this.methods.push(request.method()); if (!request.url().startsWith(this.base) && !(this.also && request.url().startsWith(this.also)) && !/^(blob|data):/.test(request.url())) this.faults.push(`foreign request: ${request.url()}`); });
    page.on('response', (response) => { if (response.url().includes('/v1/')) void response.text().then((text) => this.bodies.push(text), () => undefined); });
    let form: string | undefined;
    const noted = (name: string): { sent: number; taken: number; refused: number } => { const one = SENT.get(name) ?? { sent: 0, taken: 0, refused: 0 }; SENT.set(name, one); return one; };
    void page.exposeBinding('kallistoSent', (_, name: string) => { noted(name).sent += 1; form = name; });
    void page.addInitScript(() => document.addEventListener('submit', (event) => (globalThis as unknown as { kallistoSent: (name: string) => void }).kallistoSent((event.target as HTMLElement).dataset['form'] ?? 'without a name'), true));
    page.on('response', (response) => {
      if (form === undefined || !response.url().includes('/v1/') || OWN.test(response.url())) return;
      if (response.ok()) noted(form).taken += 1; else noted(form).refused += 1;
      form = undefined;
    });
    void page.addInitScript(() => document.addEventListener('securitypolicyviolation', (event) => console.error(`CSP: ${event.violatedDirective} ${event.blockedURI}`)));
    return this;
  }

  async login(name: string, password = 'correct horse battery'): Promise<void> {
    await this.page.goto('/ui/login');
    if (name === 'root') { await this.page.getByRole('button', { name: 'Token' }).click(); await this.page.getByLabel('Token').fill('root'); } else {
      await this.page.getByRole('button', { name: 'People' }).click();
      await this.page.getByLabel('User name').fill(name);
      await this.page.getByLabel('Password').fill(password);
    }
    await this.page.getByRole('button', { name: 'Sign in', exact: true }).click();
    await this.page.locator('.app').waitFor();
  }

  /** Goes without a reload, as a click on a link does. */
  async go(path: string): Promise<void> {
    await this.page.evaluate((url) => { const link = document.createElement('a'); link.href = url; document.body.append(link); link.click(); link.remove(); }, path);
  }

  async axe(): Promise<void> {
    await this.page.evaluate(axeSource);
    const found = await this.page.evaluate(async () => {
      const { violations } = await (globalThis as unknown as { axe: { run: (root: Document, options: object) => Promise<{ violations: { id: string; nodes: { target: string[] }[] }[] }> } }).axe.run(document, { runOnly: ['wcag2a', 'wcag2aa', 'wcag21a', 'wcag21aa', 'wcag22aa'] });
      return violations.map((one) => `${one.id}: ${one.nodes.slice(0, 3).map((node) => node.target.join(' ')).join(' | ')}`);
    });
    for (const one of found) this.faults.push(`axe: ${one} at ${this.page.url()}`);
  }

  /** Nothing planted in an address, in storage or a title. */
  async planted(): Promise<void> {
    const kept = await this.page.evaluate(() => JSON.stringify([Object.entries(localStorage), Object.entries(sessionStorage), document.title, location.href]));
    for (const value of PLANTED) {
      if (kept.includes(value)) this.faults.push(`planted value in storage, title or address: ${value}`);
      if (this.urls.some((url) => decodeURIComponent(url).includes(value))) this.faults.push(`planted value in a requested address: ${value}`);
    }
  }

  /** Saves an edit after the session has ended. A stream ends with its token, so the page may know of that before it shows the difference. */
  async saveWithoutSession(): Promise<void> {
    await this.page.getByRole('button', { name: 'Save', exact: true }).click();
    const ended = this.page.getByRole('heading', { name: 'The session has ended' });
    const confirm = this.page.getByRole('dialog').getByRole('button', { name: 'Save', exact: true });
    await ended.or(confirm).first().waitFor();
    if (!await ended.isVisible()) await confirm.click();
    await ended.waitFor();
  }

  async finish(): Promise<void> {
    await this.axe();
    await this.planted();
    await this.context.close();
    if (this.faults.length > 0) throw new Error([...new Set(this.faults)].join('\n    '));
  }
}
