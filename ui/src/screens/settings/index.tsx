// Settings of the server: mounts, quotas, seal, namespaces, what browsers are told, and the server itself.
import * as en from '../../en/screens/settings/index.ts';
import { href, route } from '../../lib/router.ts';
import { can, type NeedName } from '../../lib/needs.ts';
import { useCurrentInView } from '../../parts/ui.tsx';
import { Browser } from './browser.tsx';
import { MountsSettings } from './mounts.tsx';
import { NamespacesSettings } from './namespaces.tsx';
import { Quotas } from './quotas.tsx';
import { SealSettings } from './seal.tsx';
import { ServerSettings } from './server.tsx';

const PARTS: [string, string, NeedName[]][] = [
  ['browser', en.thisBrowserAndPage, []],
  ['mounts', en.mounts, ['mounts']],
  ['quotas', en.quotas, ['quotas']],
  ['seal', en.sealAndKeys, ['seal', 'rotate', 'rekey']],
  ['namespaces', en.namespaces, ['namespaces']],
  ['server', en.server, ['config']],
];

export function Settings() {
  const part = route.value.path.split('/')[1] ?? 'browser';
  const shown = PARTS.filter(
    ([, , needs]) => needs.length === 0 || needs.some((name) => can(name) === true),
  );
  // The links come with the answer about rights.
  const strip = useCurrentInView(`${part} ${shown.length}`);
  return (
    <div class="page">
      <header class="pagehead">
        <h1>{en.settings}</h1>
      </header>
      <div class="settings">
        <nav class="sidenav" aria-label={en.settings} ref={strip}>
          {shown.map(([key, label]) => (
            <a
              key={key}
              href={href(`settings/${key}`)}
              aria-current={part === key ? 'page' : undefined}
            >
              {label}
            </a>
          ))}
          {can('monitor') && <a href={href('log')}>{en.log}</a>}
        </nav>
        <div class="stack">
          {part === 'mounts' ? (
            <MountsSettings />
          ) : part === 'quotas' ? (
            <Quotas />
          ) : part === 'seal' ? (
            <SealSettings />
          ) : part === 'namespaces' ? (
            <NamespacesSettings />
          ) : part === 'server' ? (
            <ServerSettings />
          ) : (
            <Browser />
          )}
        </div>
      </div>
    </div>
  );
}
