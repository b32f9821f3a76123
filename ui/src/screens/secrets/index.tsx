// Secrets: the folder at the left, the secret at the right; on a narrow screen each is a page of its own.
import * as common from '../../en/common.ts';
import * as en from '../../en/screens/secrets/index.ts';
import { useEffect, useState } from 'preact/hooks';
import { useLoad } from '../../lib/load.ts';
import {
  allMounts,
  findPlace,
  parentOf,
  placeText,
  type Mount,
  type Place,
} from '../../lib/place.ts';
import { href, route } from '../../lib/router.ts';
import { me } from '../../lib/state.ts';
import { visible } from '../../lib/time.ts';
import { Icon } from '../../parts/icons.tsx';
import { Card, Empty, Failed, Loading, Page, Tag } from '../../parts/ui.tsx';
import { GoTo } from './goto.tsx';
import { Folder, FolderHome } from './folder.tsx';
import { Secret } from './secret.tsx';

const ABOUT: Record<string, string> = {
  kv: en.keyValueSecrets,
  generic: en.keyValueSecrets,
  cubbyhole: en.privateToYourTokenAndGone,
  transit: en.encryptionAndSignaturesAsAService,
  totp: en.oneTimePasswords,
  pki: 'certificates',
  database: en.credentialsOfDatabasesMadeWhen,
  rabbitmq: en.credentialsOfRabbitmqMadeWhenAsked,
  ldap: en.passwordsOfADirectory,
  kubernetes: en.tokensOfKubernetes,
  ssh: en.sshCertificates,
  identity: en.peopleAndApps,
  system: en.theServerItself,
};

function Mounts() {
  const loaded = useLoad(() => allMounts(), []);
  if (loaded.error) return <Failed error={loaded.error} retry={loaded.reload} />;
  if (!loaded.data)
    return (
      <Page title={common.secrets}>
        <Loading />
      </Page>
    );
  const list = loaded.data.secret.filter(
    (mount) => !['system', 'identity', 'ns_system', 'ns_identity'].includes(mount.type),
  );
  const to = (mount: Mount): string =>
    mount.type === 'transit' ? href(`transit/${mount.path}`) : href(`s/${mount.path}`);
  const opens = (mount: Mount): boolean =>
    ['kv', 'generic', 'cubbyhole', 'ns_cubbyhole', 'transit'].includes(mount.type);
  return (
    <Page title={common.secrets} sub={en.eachMountIsAPlaceOf}>
      <GoTo />
      {list.length === 0 ? (
        <Empty icon="key" title={en.noMountIsReachableWithThis}>
          <>
            {en.yourPolicies} {me.value?.policies.join(', ')}.
          </>
        </Empty>
      ) : (
        <Card>
          <ul class="mounts">
            {list.map((mount) => {
              const inside = (
                <>
                  <Icon
                    name={
                      mount.type === 'transit' ? 'bolt' : mount.type === 'kv' ? 'key' : 'folder'
                    }
                    small={false}
                  />
                  <span class="grow">
                    <b class="mono">{visible(mount.path)}</b>
                    <small class="dim">
                      {visible(mount.description) || ABOUT[mount.type] || mount.type}
                    </small>
                  </span>
                  <Tag>
                    {mount.type}
                    {mount.type === 'kv' ? en.version(mount.version) : ''}
                  </Tag>
                </>
              );
              return (
                <li key={mount.path}>
                  {opens(mount) ? (
                    <a href={to(mount)}>
                      {inside}
                      <Icon name="chev" />
                    </a>
                  ) : (
                    <a
                      href={href('tools/api', { at: mount.path })}
                      title={en.itsRoutesInTheApiConsole}
                    >
                      {inside}
                      <Icon name="chev" />
                    </a>
                  )}
                </li>
              );
            })}
          </ul>
        </Card>
      )}
    </Page>
  );
}

export function Secrets() {
  const text = route.value.path.replace(/^s\/?/, '');
  if (text === '') return <Mounts />;
  return <Browser text={text} />;
}

function Browser({ text }: { text: string }) {
  const loaded = useLoad(() => findPlace(text), [text]);
  const [kept, setKept] = useState<Place | undefined>(undefined);
  useEffect(() => {
    if (loaded.data) setKept(loaded.data);
  }, [loaded.data]);
  // The folder stays in its place while the next secret is looked up.
  const place = loaded.data ?? (loaded.error ? undefined : kept);
  if (loaded.error)
    return (
      <Failed error={loaded.error} retry={loaded.reload} path={text}>
        <GoTo />
      </Failed>
    );
  if (!place) return <Loading rows={10} />;
  const folder: Place = {
    mount: place.mount,
    path: place.isFolder ? place.path : parentOf(place.path),
    isFolder: true,
  };
  // On a narrow screen an import takes the place of the list.
  const isTask = route.value.query.get('tab') !== null;
  // A comparison takes the whole width.
  const isWide = !place.isFolder && route.value.query.get('tab') === 'history';
  return (
    <div
      class={`split ${place.isFolder && !isTask ? 'at-folder' : 'at-secret'} ${isWide ? 'alone' : ''}`}
    >
      {!isWide && (
        <Folder
          key={placeText(folder)}
          place={folder}
          current={place.isFolder ? undefined : place.path}
        />
      )}
      <section class="detail" aria-label={place.isFolder ? en.folder : common.secret2}>
        {place.isFolder ? (
          <FolderHome place={folder} />
        ) : (
          <Secret key={placeText(place)} place={place} />
        )}
      </section>
    </div>
  );
}
