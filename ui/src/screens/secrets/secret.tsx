// A secret: its name, state and actions, and the tabs. Opening it asks for names and metadata, never for a value.
import * as common from '../../en/common.ts';
import * as en from '../../en/screens/secrets/secret.ts';
import { useEffect } from 'preact/hooks';
import { call } from '../../lib/api.ts';
import { copy } from '../../lib/clipboard.ts';
import { useAction, useLoad } from '../../lib/load.ts';
import { allows, useNeeds } from '../../lib/needs.ts';
import {
  apiPath,
  lastSegment,
  parentOf,
  placeText,
  readMetadata,
  readSubkeys,
  stateOf,
  type Metadata,
  type Place,
  type VersionInfo,
} from '../../lib/place.ts';
import { pinned, togglePin, visited } from '../../lib/prefs.ts';
import { go, href, route } from '../../lib/router.ts';
import { namespace } from '../../lib/state.ts';
import { named } from '../../lib/time.ts';
import { useKeys } from '../../parts/keys.tsx';
import { Icon } from '../../parts/icons.tsx';
import {
  Button,
  Empty,
  Failed,
  FormError,
  LinkButton,
  Loading,
  Note,
  Tabs,
  Tag,
} from '../../parts/ui.tsx';
import { bulk } from './bulk.tsx';
import { Editor } from './editor.tsx';
import { History } from './history.tsx';
import { Meta } from './meta.tsx';
import { UseIt } from './use.tsx';
import { Values } from './values.tsx';
import { Who } from './who.tsx';

export interface Opened {
  meta: Metadata | undefined;
  metaError: unknown;
  subkeys: Record<string, any> | undefined;
  isThere: boolean;
}

async function openSecret(place: Place, version: number | undefined): Promise<Opened> {
  if (place.mount.version === 1)
    return { meta: undefined, metaError: undefined, subkeys: undefined, isThere: true };
  let metaError: unknown;
  const [meta, subkeys] = await Promise.all([
    readMetadata(place).catch((error: unknown) => {
      metaError = error;
      return undefined;
    }),
    readSubkeys(place, version),
  ]);
  return { meta, metaError, subkeys, isThere: meta !== undefined || subkeys !== undefined };
}

export function Secret({ place }: { place: Place }) {
  const { query } = route.value;
  const tab = query.get('tab') ?? '';
  const version = query.get('v') ? Number(query.get('v')) : undefined;
  const loaded = useLoad(() => openSecret(place, version), [placeText(place), version]);
  const own = placeText(place);
  const paths = { read: apiPath(place, 'data'), metadata: apiPath(place, 'metadata') };
  useNeeds([
    { path: paths.read, cap: 'read' },
    { path: paths.metadata, cap: 'read' },
  ]);
  const mayRead = allows({ path: paths.read, cap: 'read' });
  const mayWrite = allows({ path: paths.read, cap: ['update', 'patch', 'create'] });
  useEffect(() => {
    visited(`${namespace.peek()}\n${own}`);
  }, [own]);
  useEffect(() => {
    const hear = (event: Event): void => {
      const change = (event as CustomEvent<{ path: string }>).detail;
      if (change.path === own && tab !== 'edit') loaded.reload();
    };
    addEventListener('kallisto-change', hear);
    return () => removeEventListener('kallisto-change', hear);
  }, [own, tab]);
  const at = (next: string): string => href(`s/${own}`, { tab: next || undefined });
  useKeys({
    edit: () => void go(at('edit')),
    history: () => void go(at('history')),
    path: () => void copy(own, common.path),
    move: () => void bulk('move', [own], loaded.reload),
  });

  if (loaded.error) return <Failed error={loaded.error} retry={loaded.reload} path={paths.read} />;
  if (!loaded.data) return <Loading rows={6} />;
  const { meta, metaError, subkeys } = loaded.data;
  const isMissing =
    place.mount.version === 2 &&
    !meta &&
    (metaError as { status?: number } | undefined)?.status === 404 &&
    !subkeys;
  if (tab === 'edit' || (isMissing && tab === 'new'))
    return (
      <Editor
        place={place}
        isNew={isMissing}
        meta={meta}
        onSaved={() => {
          loaded.reload();
        }}
      />
    );
  if (isMissing)
    return (
      <Failed error={metaError} path={paths.read}>
        <LinkButton href={at('edit')} icon="plus" kind="primary">
          {common.makeIt}
        </LinkButton>
      </Failed>
    );
  const current = meta?.versions[0];
  const state = current ? stateOf(current) : 'there';
  const shown = version ? meta?.versions.find((one) => one.version === version) : current;
  const isPinned = (pinned.value ?? []).includes(`${namespace.value}\n${own}`);
  const keys = subkeys ? Object.keys(subkeys).length : undefined;
  const canDelete =
    place.mount.version === 2
      ? { path: paths.read, cap: 'delete' as const }
      : { path: paths.read, cap: 'delete' as const };
  return (
    <>
      <header class="head">
        <div class="title">
          <a class="back-link" href={href(`s/${parentOf(own)}`)} aria-label={en.backToTheFolder}>
            <Icon name="chev" />
          </a>
          <h1 class="mono">{named(lastSegment(own))}</h1>
          {current && (
            <Tag kind={state === 'there' ? 'ok' : state === 'deleted' ? 'warn' : 'bad'}>
              {version && version !== meta?.current_version
                ? en.vOf(version, meta?.current_version)
                : `v${meta?.current_version} · ${state === 'there' ? en.current : state}`}
            </Tag>
          )}
          {place.mount.version === 1 && <Tag>{en.version1NoHistory}</Tag>}
          <div class="acts">
            <Button
              icon="share"
              need={{ path: paths.read, cap: 'read' }}
              onClick={() =>
                void import('./share.tsx').then((file) => file.shareSecret(place, version))
              }
            >
              {en.shareOnce}
            </Button>
            <Button icon="swap" onClick={() => bulk('move', [own], loaded.reload)}>
              {common.move}
            </Button>
            <Button
              icon="trash"
              need={canDelete}
              onClick={() =>
                bulk('delete', [own], () => {
                  loaded.reload();
                })
              }
            >
              {common.deleteIt}
            </Button>
            <Button
              icon="edit"
              kind="primary"
              need={{ path: paths.read, cap: ['update', 'patch', 'create'] }}
              onClick={() => void go(at('edit'))}
            >
              {en.edit}
            </Button>
          </div>
        </div>
        <span class="path mono">
          <span>{named(own)}</span>{' '}
          <Button
            kind="ghost"
            size="sm"
            icon="copy"
            label={en.copyPath}
            onClick={() => void copy(own, common.path)}
          />
          <Button
            kind="ghost"
            size="sm"
            icon="star"
            label={isPinned ? en.unpin : en.pinToHome}
            pressed={isPinned}
            onClick={() => togglePin(`${namespace.value}\n${own}`)}
          />
        </span>
      </header>
      <Tabs
        label={common.secret2}
        current={tab}
        tabs={[
          { key: '', label: en.values, href: at(''), count: keys },
          ...(place.mount.version === 2
            ? [
                {
                  key: 'history',
                  label: en.history,
                  href: at('history'),
                  count: meta?.versions.length,
                },
                { key: 'meta', label: en.metadata, href: at('meta') },
              ]
            : []),
          { key: 'who', label: en.whoCanRead, href: at('who') },
          { key: 'use', label: common.useIt, href: at('use') },
        ]}
      />
      {tab === 'history' ? (
        <History place={place} meta={meta} metaError={metaError} reload={loaded.reload} />
      ) : (
        <div class="body">
          {tab === 'meta' ? (
            <Meta place={place} meta={meta} error={metaError} reload={loaded.reload} />
          ) : tab === 'who' ? (
            <Who place={place} />
          ) : tab === 'use' ? (
            <UseIt place={place} keys={subkeys ? Object.keys(subkeys) : []} />
          ) : meta && !shown && !subkeys ? (
            <Unwritten at={at} version={version} />
          ) : shown && stateOf(shown) !== 'there' ? (
            <Gone place={place} last={shown} reload={loaded.reload} />
          ) : (
            <>
              <Values
                key={version ?? meta?.current_version}
                place={place}
                subkeys={subkeys}
                version={version}
                meta={meta}
                info={shown}
              />
              {mayRead === false && mayWrite === true && (
                <Note icon="lock">{en.youMayWriteThisSecretBut}</Note>
              )}
            </>
          )}
        </div>
      )}
    </>
  );
}

/** A secret that has metadata and no version, or not the one that was asked for. */
const Unwritten = ({
  at,
  version,
}: {
  at: (tab: string) => string;
  version: number | undefined;
}) =>
  version === undefined ? (
    <Empty
      icon="key"
      title={en.noVersionYet}
      action={
        <LinkButton href={at('edit')} icon="plus" kind="primary">
          {en.writeTheFirstOne}
        </LinkButton>
      }
    >
      {en.itHasMetadataAlone}
    </Empty>
  ) : (
    <Empty
      icon="clock"
      title={en.thereIsNoVersion(version)}
      action={
        <LinkButton href={at('history')} icon="clock">
          {en.history}
        </LinkButton>
      }
    >
      {en.itWasNeverWrittenOrIs}
    </Empty>
  );

function Gone({ place, last, reload }: { place: Place; last: VersionInfo; reload: () => void }) {
  const undelete = useAction(async () => {
    await call('POST', apiPath(place, 'undelete'), { body: { versions: [last.version] } });
    reload();
  });
  return (
    <div class="empty">
      <span class="disc">
        <Icon name="trash" small={false} />
      </span>
      <h2>{en.versionIs(last.version, last.destroyed ? en.destroyed : common.deleted)}</h2>
      <p class="soft">
        {last.destroyed ? (
          en.itsValuesAreGoneForGood
        ) : (
          <>
            {en.deleted(new Date(last.deletion_time).toLocaleString())}
            {last.deleted_by && (
              <>
                {' '}
                {en.by} <b>{last.deleted_by.display_name}</b>
              </>
            )}
            {en.itsValuesAreKeptAndCan}
          </>
        )}
      </p>
      <div class="row">
        {!last.destroyed && (
          <Button
            kind="primary"
            icon="undo"
            need={{ path: apiPath(place, 'undelete'), cap: ['update', 'create'] }}
            busy={undelete.busy}
            onClick={() => void undelete.run()}
          >
            {en.undelete}
          </Button>
        )}
        <LinkButton href={href(`s/${placeText(place)}`, { tab: 'history' })} icon="clock">
          {en.history}
        </LinkButton>
      </div>
      <FormError error={undelete.error} />
    </div>
  );
}
