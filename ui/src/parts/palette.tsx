// The palette (Ctrl-K): finds names over all reachable mounts while one types, and goes, does, switches.
import * as common from '../en/common.ts';
import * as en from '../en/parts/palette.ts';
import { useEffect, useRef, useState } from 'preact/hooks';
import { search, type Hit } from '../lib/search.ts';
import { can } from '../lib/needs.ts';
import { hrefOf, typedFault } from '../lib/place.ts';
import { go, href } from '../lib/router.ts';
import { recent, theme } from '../lib/prefs.ts';
import { namespace } from '../lib/state.ts';
import { visible } from '../lib/time.ts';
import { tryCall } from '../lib/api.ts';
import { open } from './dialog.tsx';
import { RAIL } from './frame.tsx';
import { Icon, type IconName } from './icons.tsx';
import { leave } from './me-menu.tsx';
import { openNamespaces } from './namespaces.tsx';

interface Item {
  text: string;
  hint: string;
  icon: IconName;
  mono?: boolean;
  run: () => void;
}
const WAIT_MS = 120;
const HITS = 50;

function actions(): Item[] {
  const visit =
    (path: string): (() => void) =>
    () =>
      void go(href(path));
  const rail = RAIL.flatMap((group) => group.entries)
    .filter((entry) => !entry.needs || entry.needs.some((name) => can(name)))
    .map((entry) => ({ text: entry.label, hint: en.go, icon: entry.icon, run: visit(entry.at) }));
  return [
    ...rail,
    { text: en.compareEnvironments, hint: en.go, icon: 'swap', run: visit('compare') },
    { text: en.openASharedSecret, hint: en.go, icon: 'link', run: visit('open') },
    {
      text: en.requestsOfThisScreenAsCommands,
      hint: en.doIt,
      icon: 'copy',
      run: () => void import('./copy-as.tsx').then((file) => file.openCopyAs()),
    },
    { text: en.switchNamespace, hint: en.doIt, icon: 'layers', run: () => void openNamespaces() },
    ...(['light', 'dark', 'system'] as const).map((name): Item => ({
      text: en.theme(name),
      hint: en.doIt,
      icon: 'eye',
      run: () => {
        theme.value = name;
      },
    })),
    { text: common.signOut, hint: en.doIt, icon: 'out', run: () => void leave() },
  ];
}

function Palette({ close }: { close: () => void }) {
  const [text, setText] = useState('');
  const [hits, setHits] = useState<Hit[]>([]);
  const [names, setNames] = useState<string[]>([]);
  const [note, setNote] = useState('');
  const [at, setAt] = useState(0);
  const stop = useRef<AbortController | undefined>(undefined);
  const box = useRef<HTMLUListElement>(null);
  useEffect(() => {
    if (can('policies'))
      void tryCall<{ keys: string[] }>('LIST', 'sys/policies/acl').then((reply) =>
        setNames(reply?.data.keys ?? []),
      );
  }, []);
  useEffect(() => {
    stop.current?.abort();
    setAt(0);
    if (text.trim().length < 2) {
      setHits([]);
      setNote('');
      return;
    }
    const control = new AbortController();
    stop.current = control;
    const timer = setTimeout(() => {
      setNote('Searching…');
      search(text.trim(), {
        limit: HITS,
        signal: control.signal,
        onHits: (found) => {
          if (!control.signal.aborted) setHits(found);
        },
      }).then(
        (done) => {
          if (!control.signal.aborted)
            setNote(
              done.hits.length === 0
                ? en.noNameMatchesLookedAt(
                    done.looked,
                    done.refused.length ? en.couldNotBeSearched(done.refused.join(', ')) : '',
                  )
                : '',
            );
        },
        (error: Error) => {
          if (!control.signal.aborted) setNote(error.message);
        },
      );
    }, WAIT_MS);
    return () => {
      clearTimeout(timer);
      control.abort();
    };
  }, [text]);
  const low = text.toLowerCase();
  const items: Item[] = [
    ...(text
      ? []
      : (recent.value ?? [])
          .filter((one) => one.startsWith(`${namespace.value}\n`))
          .slice(0, 6)
          .map((one): Item => {
            const place = one.slice(one.indexOf('\n') + 1);
            return {
              text: place,
              hint: en.recent,
              icon: 'clock',
              mono: true,
              run: () => void go(href(`s/${place}`)),
            };
          })),
    ...hits.map((hit): Item => ({
      text: hit.place,
      hint: hit.why ?? common.secret,
      icon: hit.place.endsWith('/') ? 'folder' : 'key',
      mono: true,
      run: () => void go(href(`s/${hit.place}`)),
    })),
    ...(text
      ? names
          .filter((name) => name.toLowerCase().includes(low))
          .slice(0, 8)
          .map((name): Item => ({
            text: name,
            hint: en.policy,
            icon: 'shield',
            mono: true,
            run: () => void go(href(`policies/${name}`)),
          }))
      : []),
    ...actions().filter((item) => item.text.toLowerCase().includes(low)),
    ...(text && typedFault(text) === undefined
      ? [
          {
            text: en.goToThePath(text),
            hint: en.go,
            icon: 'chev' as const,
            run: () => void go(hrefOf(text)),
          },
        ]
      : []),
    ...(text
      ? [
          {
            text: en.allResultsFor(text),
            hint: en.find,
            icon: 'search' as const,
            run: () => void go(href('find', { q: text })),
          },
        ]
      : []),
  ];
  const index = Math.min(at, items.length - 1);
  useEffect(() => {
    box.current?.querySelector('[aria-selected=true]')?.scrollIntoView({ block: 'nearest' });
  }, [index]);
  const take = (item: Item | undefined): void => {
    if (!item) return;
    close();
    item.run();
  };
  const onKeyDown = (event: KeyboardEvent): void => {
    const step = { ArrowDown: 1, ArrowUp: -1 }[event.key];
    if (step) {
      event.preventDefault();
      setAt((index + step + items.length) % items.length);
    } else if (event.key === 'Enter') {
      event.preventDefault();
      take(items[index]);
    }
  };
  return (
    <div class="palette">
      <h2 id="dialog-title" class="sr">
        {en.searchEverything}
      </h2>
      <div class="pal-in">
        <Icon name="search" small={false} />
        <input
          autofocus
          value={text}
          onInput={(event) => setText(event.currentTarget.value)}
          onKeyDown={onKeyDown}
          placeholder={en.namePathPolicyOrAction}
          aria-label={en.searchEverything}
          role="combobox"
          aria-expanded="true"
          aria-controls="pal-list"
          aria-activedescendant={items.length ? `pal-${index}` : undefined}
          autocomplete="off"
          spellcheck={false}
        />
        <kbd>Esc</kbd>
      </div>
      <ul id="pal-list" role="listbox" aria-label={en.results} ref={box}>
        {items.map((item, i) => (
          <li
            id={`pal-${i}`}
            role="option"
            aria-selected={i === index}
            onMouseMove={() => setAt(i)}
            onClick={() => take(item)}
          >
            <Icon name={item.icon} small={false} />
            <span class={`grow ${item.mono ? 'mono' : ''}`}>{visible(item.text)}</span>
            <span class="dim">{item.hint}</span>
          </li>
        ))}
      </ul>
      <p class="pal-note dim" role="status">
        {note || (
          <>
            <kbd>↑</kbd> <kbd>↓</kbd> {en.choose} <kbd>Enter</kbd> {en.open}{' '}
            <span class="mono">owner:ada</span> <span class="mono">in:kv/apps/</span> {en.narrow}
          </>
        )}
      </p>
    </div>
  );
}

let isShown = false;
export async function openPalette(): Promise<void> {
  if (isShown) return;
  isShown = true;
  try {
    await open<void>((close) => <Palette close={() => close()} />);
  } finally {
    isShown = false;
  }
}
