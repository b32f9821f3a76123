// A virtual list: only the rows in view are in the document, so 100,000 names cost what 30 do.
//
// Role `listbox` with `aria-setsize` and `aria-posinset`; arrows, Home, End, Page keys, `j` and `k`, type-ahead, Enter. Heights are scaled past the
// height that browsers give an element (about 16 million pixels), so a million names work.
import type { ComponentChildren } from 'preact';
import { useEffect, useLayoutEffect, useRef, useState } from 'preact/hooks';

export interface ListProps<T> {
  label: string;
  rows: readonly T[];
  keyOf: (row: T) => string;
  render: (row: T) => ComponentChildren;
  href?: (row: T) => string;
  /** Opens a row: Enter or a click. */
  onOpen: (row: T) => void;
  current?: string | undefined;
  selected?: ReadonlySet<string>;
  onSelect?: (row: T, range: T[]) => void;
  /** Hears which rows are in view. */
  onView?: (rows: T[]) => void;
  empty?: ComponentChildren;
  class?: string;
}

const HEIGHT_MAX = 8_000_000;
const OVERSCAN = 8;
const TYPE_AHEAD_MS = 700;

interface ListKeys {
  move: (by: number) => void;
  open: () => void;
  select: () => void;
}
/** What keys do in the list in view, if there is one. */
export const activeList: { keys: ListKeys | undefined } = { keys: undefined };

export function List<T>({
  label,
  rows,
  keyOf,
  render,
  href,
  onOpen,
  current,
  selected,
  onSelect,
  onView,
  empty,
  class: extra = '',
}: ListProps<T>) {
  const box = useRef<HTMLDivElement>(null);
  const [top, setTop] = useState(0);
  const [height, setHeight] = useState(800);
  const [rowHeight, setRowHeight] = useState(36);
  const [active, setActive] = useState(-1);
  const typed = useRef({ text: '', at: 0 });
  const anchor = useRef(-1);

  useLayoutEffect(() => {
    const element = box.current;
    if (!element) return;
    const measure = (): void => {
      setHeight(element.clientHeight || 400);
      const probe = getComputedStyle(element).getPropertyValue('--row-px');
      setRowHeight(Number.parseFloat(probe) || 36);
    };
    measure();
    const observer = new ResizeObserver(measure);
    observer.observe(element);
    return () => observer.disconnect();
  }, []);

  const total = rows.length * rowHeight;
  const shownTotal = Math.min(total, HEIGHT_MAX);
  // Past the limit the scroll position stands for a share of the rows.
  const ratio = total > shownTotal ? (total - height) / (shownTotal - height) : 1;
  const first = Math.max(0, Math.floor((top * ratio) / rowHeight) - OVERSCAN);
  const last = Math.min(rows.length, Math.ceil((top * ratio + height) / rowHeight) + OVERSCAN);
  const offset = top - top * ratio;

  const currentIndex = current === undefined ? -1 : rows.findIndex((row) => keyOf(row) === current);
  const at = active >= 0 && active < rows.length ? active : currentIndex;

  const reveal = (index: number): void => {
    const element = box.current;
    if (!element) return;
    const from = index * rowHeight;
    const begin = element.scrollTop * ratio;
    if (from < begin) element.scrollTop = from / ratio;
    else if (from + rowHeight > begin + element.clientHeight)
      element.scrollTop = (from + rowHeight - element.clientHeight) / ratio;
  };
  const to = (index: number): void => {
    const next = Math.max(0, Math.min(rows.length - 1, index));
    setActive(next);
    reveal(next);
  };
  const pick = (index: number, isRange: boolean): void => {
    const row = rows[index];
    if (row === undefined || !onSelect) return;
    const [from, until] =
      isRange && anchor.current >= 0
        ? [Math.min(anchor.current, index), Math.max(anchor.current, index)]
        : [index, index];
    if (!isRange) anchor.current = index;
    onSelect(row, rows.slice(from, until + 1));
  };

  useEffect(() => {
    if (currentIndex >= 0) reveal(currentIndex);
  }, [current, rows.length > 0]);
  useEffect(() => {
    setActive(-1);
  }, [current]);
  useEffect(() => {
    onView?.(rows.slice(first, last));
  }, [first, last, rows]);
  // Before the next key, not after the next frame: a list that is gone answers none, and one that moved opens the row it shows.
  useLayoutEffect(() => {
    const own: ListKeys = {
      move: (by) => {
        to(at + by);
        box.current?.focus({ preventScroll: true });
      },
      open: () => {
        const row = rows[at];
        if (row !== undefined) onOpen(row);
      },
      select: () => pick(at, false),
    };
    activeList.keys = own;
    return () => {
      if (activeList.keys === own) activeList.keys = undefined;
    };
  });

  const onKeyDown = (event: KeyboardEvent): void => {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    const page = Math.max(1, Math.floor(height / rowHeight) - 1);
    const steps: Record<string, number> = {
      ArrowDown: at + 1,
      ArrowUp: at - 1,
      Home: 0,
      End: rows.length - 1,
      PageDown: at + page,
      PageUp: at - page,
    };
    const step = steps[event.key];
    if (step !== undefined) {
      event.preventDefault();
      to(step);
      if (event.shiftKey) pick(Math.max(0, Math.min(rows.length - 1, step)), true);
    } else if (event.key === 'Enter') {
      event.preventDefault();
      const row = rows[at];
      if (row !== undefined) onOpen(row);
    } else if (event.key === ' ' && onSelect) {
      event.preventDefault();
      pick(at, event.shiftKey);
    } else if (event.key.length === 1 && event.shiftKey) {
      // Type-ahead with Shift, since plain letters are keys of the page.
      const now = event.timeStamp;
      const text =
        (now - typed.current.at < TYPE_AHEAD_MS ? typed.current.text : '') +
        event.key.toLowerCase();
      typed.current = { text, at: now };
      const found = rows.findIndex((row) => keyOf(row).toLowerCase().startsWith(text));
      if (found >= 0) {
        event.preventDefault();
        event.stopPropagation();
        to(found);
      }
    }
  };

  if (rows.length === 0)
    return (
      <div class={`rows ${extra}`} ref={box}>
        {empty}
      </div>
    );
  return (
    <div
      class={`rows ${extra}`}
      role="listbox"
      aria-label={label}
      aria-multiselectable={onSelect ? 'true' : undefined}
      tabIndex={0}
      ref={box}
      onScroll={(event) => setTop(event.currentTarget.scrollTop)}
      onKeyDown={onKeyDown}
      aria-activedescendant={at >= first && at < last ? `row-${at}` : undefined}
    >
      <svg class="stretch" width="1" height={shownTotal} aria-hidden="true" />
      <svg
        class="pad-top"
        width="1"
        height={Math.max(0, first * rowHeight + offset)}
        aria-hidden="true"
      />
      {rows.slice(first, last).map((row, i) => {
        const index = first + i;
        const key = keyOf(row);
        const isCurrent = key === current;
        const click = (event: MouseEvent): void => {
          if (event.metaKey || event.ctrlKey) return;
          event.preventDefault();
          if (event.shiftKey && onSelect) return pick(index, true);
          setActive(index);
          onOpen(row);
        };
        const common = {
          id: `row-${index}`,
          role: 'option' as const,
          'aria-selected': selected ? selected.has(key) : isCurrent,
          'aria-setsize': rows.length,
          'aria-posinset': index + 1,
          class: `${isCurrent ? 'on' : ''} ${index === at ? 'active' : ''} ${selected?.has(key) ? 'picked' : ''}`,
          onClick: click,
        };
        return href ? (
          <a key={key} {...common} href={href(row)} tabIndex={-1}>
            {render(row)}
          </a>
        ) : (
          <div key={key} {...common}>
            {render(row)}
          </div>
        );
      })}
    </div>
  );
}
