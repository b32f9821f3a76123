// All flows, in order; names on the command line choose some. Each has a fresh page; servers are shared where a flow does not change what others need.
import type { Browser } from 'playwright-core';
import { launch } from '../browser.ts';
import { Server } from '../server.ts';
import { units } from '../units.ts';
import { access } from './access.ts';
import { budgets } from './budgets.ts';
import { edges } from './edges.ts';
import { everyForm, forms } from './forms.ts';
import { met } from './met.ts';
import { newcomer } from './newcomer.ts';
import { operate } from './operate.ts';
import { pictures } from './pictures.ts';
import { pseudo } from './pseudo.ts';
import { secrets } from './secrets.ts';
import { seed } from './seed.ts';
import { session } from './session.ts';
import { setup } from './setup.ts';
import { screens } from './screens.ts';

export interface World { browser: Browser; dev: Server }
export interface Flow { name: string; run: (world: World) => Promise<void> }
const FLOW_MS = 150_000;

/** Runs a flow in pages of its own; a failure is printed behind `mark`. */
async function once(flow: Flow, world: World, mark: string): Promise<boolean> {
  const start = Date.now();
  let timer: ReturnType<typeof setTimeout> | undefined;
  try {
    await Promise.race([flow.run(world), new Promise((_, reject) => { timer = setTimeout(() => reject(new Error(`over ${FLOW_MS / 1000} s`)), FLOW_MS); })]);
    console.log(`ok      ${flow.name} (${Date.now() - start} ms)`);
    return true;
  } catch (error) {
    console.log(`${mark}${flow.name}\n    ${error instanceof Error ? error.message : String(error)}`);
    return false;
  } finally { clearTimeout(timer); for (const context of world.browser.contexts()) await context.close(); }
}

export async function run(chromium: string | undefined, names: string[]): Promise<number> {
  if (!chromium) throw new Error('usage: node test/run.mjs CHROMIUM [FLOW...]');
  const all = [...units, ...newcomer, ...setup, ...session, ...secrets, ...access, ...operate, ...forms, ...met, ...edges, ...pseudo, ...budgets, ...screens];
  const chosen = names.length > 0 ? [...all, ...pictures].filter((flow) => names.some((name) => flow.name.includes(name))) : all;
  const browser = await launch(chromium);
  const dev = await Server.dev();
  let failed = 0;
  const begin = Date.now();
  try {
    await seed(dev);
    for (const flow of names.length > 0 ? chosen : [...chosen, ...everyForm]) {
      // A flow that failed runs once more, and says so: the browser shares its machine.
      if (!(await once(flow, { browser, dev }, 'AGAIN   ')) && !(await once(flow, { browser, dev }, 'FAILED  '))) failed += 1;
    }
  } finally { await browser.close(); dev.stop(); }
  console.log(`\n${chosen.length - failed} passed, ${failed} failed in ${Math.round((Date.now() - begin) / 1000)} s`);
  return failed === 0 && chosen.length > 0 ? 0 : 1;
}
