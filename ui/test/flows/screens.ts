// Every screen in light, dark and at 390 px: no fault, axe 0, and a picture in target/ui-shots.
import { mkdirSync } from 'node:fs';
import { Watched } from '../browser.ts';
import type { Flow } from './index.ts';

export const SCREENS: [string, string][] = [
  ['home', '/ui/'], ['mounts', '/ui/s/'], ['folder', '/ui/s/secret/apps/payments/'], ['secret', '/ui/s/secret/apps/payments/stripe'], ['history', '/ui/s/secret/apps/payments/stripe?tab=history'], ['metadata', '/ui/s/secret/apps/payments/stripe?tab=meta'], ['who', '/ui/s/secret/apps/payments/stripe?tab=who'], ['use', '/ui/s/secret/apps/payments/stripe?tab=use'], ['edit', '/ui/s/secret/apps/payments/stripe?tab=edit'], ['import', '/ui/s/secret/apps/?tab=import'],
  ['compare', '/ui/compare?p=secret/apps/payments/mailgun&p=secret/apps/payments/paypal'], ['find', '/ui/find?q=str'], ['shared', '/ui/shared'], ['transit', '/ui/transit/transit/'], ['policies', '/ui/policies/'], ['policy', '/ui/policies/dev'], ['simulator', '/ui/policies/simulate'], ['entities', '/ui/people/entities/'], ['groups', '/ui/people/groups/'], ['logins', '/ui/people/logins/'], ['locked', '/ui/people/locked/'], ['tokens', '/ui/tokens/'], ['review', '/ui/review?path=secret/data/apps/payments/stripe'],
  ['cluster', '/ui/cluster'], ['metrics', '/ui/metrics'], ['audit', '/ui/audit'], ['snapshots', '/ui/snapshots'], ['log', '/ui/log'], ['settings', '/ui/settings/browser'], ['mounts-settings', '/ui/settings/mounts'], ['quotas', '/ui/settings/quotas'], ['seal', '/ui/settings/seal'], ['namespaces', '/ui/settings/namespaces'], ['server', '/ui/settings/server'], ['wrapping', '/ui/tools/wrap'], ['random', '/ui/tools/random'], ['api', '/ui/tools/api'],
];
const OUT = '../target/ui-shots';

export const screens: Flow[] = (['light', 'dark', 'phone'] as const).map((look) => ({ name: `screens: every screen, ${look}`, run: async ({ browser, dev }) => {
  mkdirSync(OUT, { recursive: true });
  const one = await Watched.open(browser, dev, { dark: look === 'dark', phone: look === 'phone' });
  await one.page.goto('/ui/login');
  await one.page.getByRole('button', { name: 'Sign in', exact: true }).waitFor();
  await one.axe();
  await one.page.screenshot({ path: `${OUT}/login-${look}.png` });
  await one.login('ops');
  for (const [name, path] of SCREENS) {
    await one.go(path);
    await one.page.waitForTimeout(450);
    await one.page.locator('[aria-busy=true]').first().waitFor({ state: 'detached', timeout: 4000 }).catch(() => undefined);
    await one.axe();
    await one.page.screenshot({ path: `${OUT}/${name}-${look}.png` });
  }
  await one.finish();
} }));
