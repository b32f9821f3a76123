// Keys of the page: single letters outside fields (they can be switched off), Ctrl-K everywhere, `g` and a letter to go. `?` lists them.
import { useLayoutEffect } from 'preact/hooks';
import * as common from '../en/common.ts';
import * as en from '../en/parts/keys.ts';
import { go, href } from '../lib/router.ts';
import { keysOn } from '../lib/prefs.ts';
import { me, cover } from '../lib/state.ts';
import { isDialogOpen, open, Sheet } from './dialog.tsx';
import { activeList } from './list.tsx';
import { openPalette } from './palette.tsx';
import { Button } from './ui.tsx';

export type Action =
  | 'filter'
  | 'reveal'
  | 'copy'
  | 'path'
  | 'edit'
  | 'history'
  | 'older'
  | 'newer'
  | 'new'
  | 'move'
  | 'actions'
  | 'save'
  | 'back';
const actions = new Map<Action, () => void>();

/** Lets the screen in view answer keys. A key may come before the next frame: it is for what is rendered, and acts on what that shows. */
export function useKeys(answers: Partial<Record<Action, () => void>>): void {
  useLayoutEffect(() => {
    const own = Object.entries(answers) as [Action, () => void][];
    for (const [action, run] of own) actions.set(action, run);
    return () => {
      for (const [action, run] of own) if (actions.get(action) === run) actions.delete(action);
    };
  });
}

const GOES: Record<string, string> = {
  h: '',
  s: 's/',
  p: 'policies/',
  t: 'tokens/',
  c: 'cluster',
  m: 'metrics',
  a: 'audit',
};

interface KeyRow {
  /** The keys, with spaces between them. */
  keys: string;
  what: string;
  /** What each of these keys has the screen do, in their order; without it `startKeys` knows them. */
  actions?: readonly Action[];
}
/** Every key, in the order of the help. */
const ROWS: readonly KeyRow[] = [
  { keys: en.ctrlK, what: en.searchGoDo },
  { keys: '/', what: en.filterTheList, actions: ['filter'] },
  { keys: ['g', ...Object.keys(GOES)].join(' '), what: en.goHomeSecretsPoliciesTokensCluster },
  { keys: 'j k', what: en.moveInAList },
  { keys: 'Enter', what: en.openKey },
  { keys: 'x', what: en.selectARow },
  { keys: 'r', what: en.revealKey, actions: ['reveal'] },
  { keys: 'c', what: en.copyAValue, actions: ['copy'] },
  { keys: 'y', what: en.copyThePath, actions: ['path'] },
  { keys: 'e', what: en.editKey, actions: ['edit'] },
  { keys: 'h', what: en.historyKey, actions: ['history'] },
  { keys: '[ ]', what: en.olderOrNewerVersion, actions: ['older', 'newer'] },
  { keys: 'n', what: en.newKey, actions: ['new'] },
  { keys: 'm', what: en.moveKey, actions: ['move'] },
  { keys: '.', what: en.actionsKey, actions: ['actions'] },
  { keys: en.shiftAndLetters, what: en.jumpToANameInA },
  { keys: en.ctrlS, what: en.saveKey },
  { keys: 'Esc', what: en.backKey },
];
const singleKeys = (keys: string): string[] => keys.split(' ');
const LETTERS = new Map(
  ROWS.flatMap(({ keys, actions = [] }) =>
    actions.map((action, at) => [singleKeys(keys)[at], action] as const),
  ),
);

function Keys({ close }: { close: () => void }) {
  return (
    <Sheet
      title={common.keys}
      actions={
        <Button kind="primary" onClick={close}>
          {common.close}
        </Button>
      }
    >
      <dl class="kv keys">
        {ROWS.map(({ keys, what }) => (
          <>
            <dt>
              {singleKeys(keys).map((one) => (
                <kbd>{one}</kbd>
              ))}
            </dt>
            <dd>{what}</dd>
          </>
        ))}
      </dl>
      <p class="dim">{en.singleLettersCanBeSwitchedOff}</p>
    </Sheet>
  );
}
export const showKeys = (): void => void open<void>((close) => <Keys close={() => close()} />);

const GO_MS = 1200;
let goAt = -Infinity;

export function startKeys(): void {
  window.addEventListener('keydown', (event: KeyboardEvent) => {
    if (!me.peek() || cover.peek()) return;
    const isCommand = event.ctrlKey || event.metaKey;
    if (isCommand && event.key.toLowerCase() === 'k') {
      event.preventDefault();
      void openPalette();
      return;
    }
    if (isCommand && event.key.toLowerCase() === 's' && actions.has('save')) {
      event.preventDefault();
      if (!isDialogOpen()) actions.get('save')?.();
      return;
    }
    if (isCommand || event.altKey || isDialogOpen()) return;
    const target = event.target as HTMLElement;
    const isTyping = target.matches('input, textarea, select, [contenteditable]');
    if (event.key === 'Escape') {
      if (isTyping) target.blur();
      else actions.get('back')?.();
      return;
    }
    if (isTyping || !keysOn.peek()) return;
    if (event.timeStamp - goAt < GO_MS && GOES[event.key] !== undefined) {
      goAt = -Infinity;
      event.preventDefault();
      void go(href(GOES[event.key] ?? ''));
      return;
    }
    if (event.shiftKey && event.key !== '?') return;
    switch (event.key) {
      case 'g':
        goAt = event.timeStamp;
        return;
      case '?':
        event.preventDefault();
        showKeys();
        return;
      case 'j':
        activeList.keys?.move(1);
        return;
      case 'k':
        activeList.keys?.move(-1);
        return;
      case 'x':
        activeList.keys?.select();
        return;
      case 'Enter':
        if (!target.matches('button, a, [role=listbox]')) activeList.keys?.open();
        return;
    }
    const action = LETTERS.get(event.key);
    if (action && actions.has(action)) {
      event.preventDefault();
      actions.get(action)?.();
    }
  });
}
