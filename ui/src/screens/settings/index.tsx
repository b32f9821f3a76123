// Settings of the server: mounts, quotas, seal, namespaces, what browsers are told, and the server itself.
import { href, route } from '../../lib/router.ts';
import { can, type NeedName } from '../../lib/needs.ts';
import { Browser } from './browser.tsx';
import { MountsSettings } from './mounts.tsx';
import { NamespacesSettings } from './namespaces.tsx';
import { Quotas } from './quotas.tsx';
import { SealSettings } from './seal.tsx';
import { ServerSettings } from './server.tsx';

const PARTS: [string, string, NeedName[]][] = [['browser', 'This browser and page', []], ['mounts', 'Mounts', ['mounts']], ['quotas', 'Rate limits', ['quotas']], ['seal', 'Seal and keys', ['seal', 'rotate', 'rekey']], ['namespaces', 'Namespaces', ['namespaces']], ['server', 'Server', ['config']]];

export function Settings() {
  const part = route.value.path.split('/')[1] ?? 'browser';
  return (
    <div class="page"><header class="pagehead"><h1>Settings</h1></header><div class="settings">
      <nav class="sidenav" aria-label="Settings">{PARTS.filter(([, , needs]) => needs.length === 0 || needs.some((name) => can(name) === true)).map(([key, label]) => <a key={key} href={href(`settings/${key}`)} aria-current={part === key ? 'page' : undefined}>{label}</a>)}{can('monitor') && <a href={href('log')}>Log</a>}</nav>
      <div class="stack">{part === 'mounts' ? <MountsSettings /> : part === 'quotas' ? <Quotas /> : part === 'seal' ? <SealSettings /> : part === 'namespaces' ? <NamespacesSettings /> : part === 'server' ? <ServerSettings /> : <Browser />}</div>
    </div></div>
  );
}
