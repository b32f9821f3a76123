// A folder: its names, filtered as one types, virtual, with version and time for the rows in view; and what may be done with a selection.
import * as common from '../../en/common.ts';
import * as en from '../../en/screens/secrets/folder.ts';
import { useEffect, useMemo, useRef, useState } from 'preact/hooks';
import { tryCall } from '../../lib/api.ts';
import { can } from '../../lib/needs.ts';
import {
  apiPath,
  lastSegment,
  listFolder,
  parentOf,
  placeText,
  stateOf,
  type Place,
  type VersionInfo,
} from '../../lib/place.ts';
import { sharing, visited } from '../../lib/prefs.ts';
import { fromHere, go, href, route } from '../../lib/router.ts';
import { me, namespace } from '../../lib/state.ts';
import { count, named, plural, short, visible } from '../../lib/time.ts';
import { watch } from '../../lib/watch.ts';
import { Icon } from '../../parts/icons.tsx';
import { useKeys } from '../../parts/keys.tsx';
import { List } from '../../parts/list.tsx';
import { Button, Empty, Failed, Loading, Note, LinkButton } from '../../parts/ui.tsx';
import { bulk, newSecret } from './bulk.tsx';
import { GoTo } from './goto.tsx';

interface Info {
  version: number;
  updated: string;
  state: string;
  owner?: string | undefined;
  due?: string | undefined;
}
const INFO_AT_ONCE = 8;
const DETAIL_MAX = 1000;

/** Version and time of the rows in view. One question for a small folder (contract E5), else the metadata of what is in view, dropped by scrolling. */
function useInfo(
  place: Place,
  names: readonly string[],
  inView: readonly string[],
): ReadonlyMap<string, Info> {
  const [info, setInfo] = useState<ReadonlyMap<string, Info>>(new Map());
  const hasDetail = useRef<boolean | undefined>(undefined);
  const asked = useRef(new Set<string>());
  const note = (
    name: string,
    {
      current_version: version,
      updated_time: updated,
      versions,
      custom_metadata: custom,
    }: Record<string, any>,
  ): void => {
    const last = versions?.[version] as VersionInfo | undefined;
    const state = last ? stateOf(last) : '';
    setInfo((old) =>
      new Map(old).set(name, { version, updated, state, owner: custom?.owner, due: custom?.due }),
    );
  };
  useEffect(() => {
    if (
      names.length === 0 ||
      names.length > DETAIL_MAX ||
      place.mount.version === 1 ||
      can('kvList') === false
    )
      return;
    let isLate = false;
    void tryCall<{ entries?: Record<string, any>[] }>('GET', 'sys/kallisto/kv/list', {
      query: { path: placeText(place), detail: true, limit: DETAIL_MAX },
    }).then((reply) => {
      const entries = reply?.data.entries;
      hasDetail.current = Array.isArray(entries);
      if (isLate || !entries) return setInfo(new Map());
      setInfo(
        new Map(
          entries
            .filter((one) => one['version'] !== undefined)
            .map((one) => [
              one['name'] as string,
              {
                version: one['version'],
                updated: one['updated_time'] ?? '',
                state: one['state'] === 'live' ? '' : (one['state'] ?? ''),
                owner: one['owner'],
                due: one['due'],
              },
            ]),
        ),
      );
    });
    return () => {
      isLate = true;
    };
  }, [names]);
  useEffect(() => {
    if (place.mount.version === 1 || place.mount.type !== 'kv' || hasDetail.current) return;
    const stop = new AbortController();
    const wanted = inView.filter((name) => !name.endsWith('/') && !asked.current.has(name));
    const run = async (): Promise<void> => {
      for (
        let name = wanted.shift();
        name !== undefined && !stop.signal.aborted && !hasDetail.current;
        name = wanted.shift()
      ) {
        const own = name;
        const reply = await tryCall<Record<string, any>>(
          'GET',
          apiPath({ mount: place.mount, path: place.path + own }, 'metadata'),
          { signal: stop.signal },
        );
        if (stop.signal.aborted) return;
        asked.current.add(own);
        if (!reply) continue;
        note(own, reply.data);
      }
    };
    const timer = setTimeout(
      () => {
        for (let i = 0; i < INFO_AT_ONCE; i += 1) void run().catch(() => undefined);
      },
      names.length > DETAIL_MAX ? 120 : 250,
    );
    return () => {
      clearTimeout(timer);
      stop.abort();
    };
  }, [inView]);
  // A secret of the folder that is written while it is in view is asked for again.
  useEffect(() => {
    const own = placeText(place);
    const hear = (event: Event): void => {
      const { path, kind } = (event as CustomEvent<{ path: string; kind: string }>).detail;
      const name = path.startsWith(own) ? path.slice(own.length) : '';
      if (!name || name.includes('/') || kind === 'remove') return;
      void tryCall<Record<string, any>>(
        'GET',
        apiPath({ mount: place.mount, path: place.path + name }, 'metadata'),
      ).then((reply) => {
        if (reply) note(name, reply.data);
      });
    };
    addEventListener('kallisto-change', hear);
    return () => removeEventListener('kallisto-change', hear);
  }, [placeText(place)]);
  return info;
}

export interface FolderState {
  names: string[];
  isDone: boolean;
  error?: unknown;
  how?: 'many' | 'plain';
}

/** Names of a folder, page by page as they come. */
export function useFolder(place: Place): FolderState & { reload: () => void } {
  const [state, setState] = useState<FolderState>({ names: [], isDone: false });
  const [turn, setTurn] = useState(0);
  useEffect(() => {
    const stop = new AbortController();
    const all: string[] = [];
    listFolder(
      place,
      (names, isDone) => {
        for (const name of names) all.push(name);
        if (!stop.signal.aborted)
          setState((old) => ({ ...old, names: [...all], isDone, error: undefined }));
      },
      stop.signal,
    ).then(
      (how) => {
        if (!stop.signal.aborted) setState((old) => ({ names: old.names, isDone: true, how }));
      },
      (error: unknown) => {
        if (!stop.signal.aborted) setState({ names: [], isDone: true, error });
      },
    );
    return () => stop.abort();
  }, [placeText(place), turn, namespace.value]);
  return { ...state, reload: () => setTurn((one) => one + 1) };
}

/** Folders first, then names; each sorted as the server sorts. */
function arranged(names: readonly string[]): string[] {
  const folders: string[] = [];
  const secrets: string[] = [];
  for (const name of names) (name.endsWith('/') ? folders : secrets).push(name);
  return [...folders, ...secrets];
}

const marked = (name: string, text: string): preact.ComponentChildren => {
  const at = text ? name.toLowerCase().indexOf(text.toLowerCase()) : -1;
  if (at < 0) return named(name);
  return (
    <>
      {visible(name.slice(0, at))}
      <mark>{visible(name.slice(at, at + text.length))}</mark>
      {visible(name.slice(at + text.length))}
    </>
  );
};

export function Folder({ place, current }: { place: Place; current?: string | undefined }) {
  const folder = useFolder(place);
  const [text, setText] = useState('');
  const [picked, setPicked] = useState<ReadonlySet<string>>(new Set());
  const [inView, setInView] = useState<string[]>([]);
  const [changed, setChanged] = useState<ReadonlyMap<string, string>>(new Map());
  const filter = useRef<HTMLInputElement>(null);
  const all = useMemo(() => arranged(folder.names), [folder.names]);
  const lower = useMemo(() => all.map((name) => name.toLowerCase()), [all]);
  const rows = useMemo(() => {
    const wanted = text.toLowerCase();
    return wanted ? all.filter((_, i) => lower[i]?.includes(wanted)) : all;
  }, [all, lower, text]);
  const info = useInfo(place, folder.names, inView);
  const own = placeText(place);
  const folders = all.findIndex((name) => !name.endsWith('/'));
  const folderCount = folders < 0 ? all.length : folders;
  const mayWatch = can('kvWatch');
  const names = useRef(folder.names);
  names.current = folder.names;

  useEffect(() => {
    setPicked(new Set());
  }, [own]);
  useKeys({
    filter: () => filter.current?.focus(),
    new: () => void newSecret(place),
    back: () => {
      if (text) setText('');
      else void go(href(`s/${current !== undefined ? own : parentOf(own.replace(/\/$/, ''))}`));
    },
  });
  useEffect(() => {
    if (mayWatch !== true || place.mount.type !== 'kv') return;
    return watch(own, (change) => {
      if (change.kind === 'resync') return folder.reload();
      const below = change.path.startsWith(own) ? change.path.slice(own.length) : '';
      if (!below) return;
      const name = below.includes('/') ? below.slice(0, below.indexOf('/') + 1) : below;
      setChanged((old) => new Map(old).set(name, change.kind));
      if (!names.current.includes(name) || change.kind === 'remove') folder.reload();
      dispatchEvent(new CustomEvent('kallisto-change', { detail: change }));
    });
  }, [own, mayWatch, namespace.value]);

  const select = (name: string, range: string[]): void =>
    setPicked((old) => {
      const next = new Set(old);
      if (range.length === 1 && next.has(name)) next.delete(name);
      else for (const one of range) next.add(one);
      return next;
    });
  const places = [...picked].map((name) => own + name);
  if (folder.error) {
    return (
      <section class="list" aria-label={en.folder}>
        <div class="list-refused">
          {(folder.error as { status?: number }).status === 404 ? (
            <EmptyFolder place={place} />
          ) : (folder.error as { status?: number }).status === 403 ? (
            <Note icon="lock">
              <b>{en.youMayNotListThisFolder}</b> {en.aSecretInItMayStill}
            </Note>
          ) : (
            <Failed error={folder.error} retry={folder.reload} />
          )}
          <GoTo start={own} />
        </div>
      </section>
    );
  }
  return (
    <section class="list" aria-label={en.secretsIn(own)}>
      <div class="tools">
        <label class="field">
          <Icon name="search" />
          <input
            ref={filter}
            type="search"
            value={text}
            onInput={(event) => setText(event.currentTarget.value)}
            onKeyDown={(event) => {
              if (event.key === 'ArrowDown') {
                event.preventDefault();
                document.querySelector<HTMLElement>('.rows')?.focus();
              }
            }}
            placeholder={en.filterNames(plural(all.length, en.name))}
            aria-label={common.filter}
            autocomplete="off"
            spellcheck={false}
          />
        </label>
        <Button kind="primary" icon="plus" onClick={() => newSecret(place)}>
          {en.newIt}
        </Button>
      </div>
      {picked.size > 0 ? (
        <div class="selected" role="toolbar" aria-label={en.selection}>
          <b>{plural(picked.size, en.selected, en.selected)}</b>
          <span class="grow" />
          <Button size="sm" icon="swap" onClick={() => bulk('move', places, folder.reload)}>
            {common.move}
          </Button>
          <Button size="sm" icon="dl" onClick={() => bulk('export', places, folder.reload)}>
            {en.exportIt}
          </Button>
          <Button
            size="sm"
            icon="trash"
            onClick={() =>
              bulk('delete', places, () => {
                setPicked(new Set());
                folder.reload();
              })
            }
          >
            {common.deleteIt}
          </Button>
          <Button
            size="sm"
            kind="ghost"
            icon="close"
            label={en.clearTheSelection}
            onClick={() => setPicked(new Set())}
          />
        </div>
      ) : (
        <div class="cols">
          <span />
          <span>{common.name}</span>
          <span class="right">{common.version}</span>
          <span class="right">{common.changed}</span>
        </div>
      )}
      {!folder.isDone && all.length === 0 ? (
        <Loading rows={12} />
      ) : (
        <List
          label={en.names(count(rows.length))}
          rows={rows}
          keyOf={(name) => name}
          current={current === undefined ? undefined : current.slice(place.path.length)}
          selected={picked.size > 0 ? picked : undefined}
          onSelect={select}
          onView={setInView}
          href={(name) => href(`s/${own}${name}`)}
          onOpen={(name) => {
            visited(`${namespace.value}\n${own}${name}`);
            void go(href(`s/${own}${name}`));
          }}
          empty={
            text ? (
              <p class="none">
                {en.noNameHas} <b class="mono">{visible(text)}</b> {en.inIt}
              </p>
            ) : (
              <EmptyFolder place={place} />
            )
          }
          render={(name) => {
            const known = info.get(name);
            return (
              <>
                <Icon name={name.endsWith('/') ? 'folder' : 'key'} small={false} />
                <span class="name mono">{sharing.value ? '••••••••' : marked(name, text)}</span>
                <span class="num dim right">
                  {known ? (
                    known.state && known.state !== 'there' && known.state !== 'current' ? (
                      <span class="tag warn">{known.state}</span>
                    ) : (
                      `v${known.version}`
                    )
                  ) : (
                    ''
                  )}
                </span>
                <span class="dim right num">
                  {changed.has(name) ? (
                    <span class="tag accent">{en.now}</span>
                  ) : known ? (
                    short(known.updated)
                  ) : (
                    ''
                  )}
                </span>
              </>
            );
          }}
        />
      )}
      <div class="sum">
        <span class="num">
          {plural(all.length - folderCount, common.secret)}
          {text && en.shown(count(rows.length))}
        </span>
        {folderCount > 0 && <span>{plural(folderCount, en.folder2)}</span>}
        {!folder.isDone && <span class="spin" role="img" aria-label={en.loadingMore} />}
        <span class="grow" />
        <span class="hints">
          <kbd>j</kbd> <kbd>k</kbd> {en.move}
        </span>
        <span class="hints">
          <kbd>/</kbd> {en.filter}
        </span>
      </div>
    </section>
  );
}

function EmptyFolder({ place }: { place: Place }) {
  return (
    <Empty
      icon="folder"
      title={en.nothingIsHereYet}
      action={
        <>
          <Button kind="primary" icon="plus" onClick={() => newSecret(place)}>
            {en.newSecret}
          </Button>
          <LinkButton href={href(`s/${placeText(place)}`, { tab: 'import' })} icon="up">
            {en.importIt}
          </LinkButton>
        </>
      }
      command={`kallisto kv put -mount=${place.mount.path.slice(0, -1)} ${place.path}name key=value`}
    />
  );
}

/** What stands at the right while no secret is open: the folder itself. */
export function FolderHome({ place }: { place: Place }) {
  const own = placeText(place);
  const [tab, setTab] = useState<typeof import('./transfer.tsx').Import | undefined>(undefined);
  const wants = route.value.query.get('tab') === 'import';
  useEffect(() => {
    if (wants) void import('./transfer.tsx').then((file) => setTab(() => file.Import));
  }, [wants]);
  if (wants && tab) {
    const Import = tab;
    return <Import place={place} />;
  }
  return (
    <div class="body">
      <div class="head-inline">
        <h1 class="mono">{named(lastSegment(own))}/</h1>
        <p class="dim mono">{visible(own)}</p>
      </div>
      <div class="row wrap">
        <Button icon="plus" kind="primary" onClick={() => newSecret(place)}>
          {en.newSecret}
        </Button>
        <LinkButton href={href(`s/${own}`, { tab: 'import' })} icon="up">
          {en.importIt}
        </LinkButton>
        <Button icon="dl" onClick={() => bulk('export', [own], () => {})}>
          {en.exportIt}
        </Button>
        {place.path !== '' && (
          <>
            <Button
              icon="swap"
              need={{ path: 'sys/kallisto/kv/move', cap: ['update', 'create'] }}
              onClick={() => bulk('move', [own], () => {})}
            >
              {en.moveOrCopy}
            </Button>
            <Button
              icon="trash"
              need={{ path: 'sys/kallisto/kv/delete', cap: ['update', 'create'] }}
              onClick={() => {
                const goOn = fromHere();
                bulk(
                  'delete',
                  [own],
                  () => void goOn(href(`s/${parentOf(own.replace(/\/$/, ''))}`)),
                );
              }}
            >
              {common.deleteIt}
            </Button>
          </>
        )}
      </div>
      <Note>{en.chooseASecretAtTheLeft(me.value?.isRoot ? en.aRootTokenReadsAll : '')}</Note>
    </div>
  );
}
