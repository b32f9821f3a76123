// Icons as paths on a 20-pixel grid, and the mark. Each stands beside a word or inside a labelled button, so all are hidden from screen readers.
const P = {
  key: 'M7 16.2a3.2 3.2 0 1 0 0-6.4 3.2 3.2 0 0 0 0 6.4zM9.3 10.7L16 4M12.6 7.4l2.2 2.2M15 5l1.6 1.6',
  folder:
    'M3 6.5A1.5 1.5 0 0 1 4.5 5h4l2 2.2h5A1.5 1.5 0 0 1 17 8.7v5.8a1.5 1.5 0 0 1-1.5 1.5h-11A1.5 1.5 0 0 1 3 14.5z',
  lock: 'M5.5 9h9v7h-9zM7.5 9V6.5a2.5 2.5 0 0 1 5 0V9',
  search: 'M9 14.5a5.5 5.5 0 1 0 0-11 5.5 5.5 0 0 0 0 11zM13 13l4 4',
  eye: 'M2.5 10S5 5 10 5s7.5 5 7.5 5-2.5 5-7.5 5-7.5-5-7.5-5zM10 12.2a2.2 2.2 0 1 0 0-4.4 2.2 2.2 0 0 0 0 4.4z',
  eyeoff:
    'M3.5 3.5l13 13M8.2 5.3A7 7 0 0 1 10 5c5 0 7.5 5 7.5 5a13 13 0 0 1-2.2 2.8M5.6 6.6A13 13 0 0 0 2.5 10S5 15 10 15a7 7 0 0 0 3-.7',
  copy: 'M7 7h9v9H7zM4 13V4h9',
  edit: 'M4 16l.7-3.3L13 4.4l2.6 2.6-8.3 8.3z',
  share: 'M10 12V3.5M6.8 6.5L10 3.3l3.2 3.2M4.5 10.5v6h11v-6',
  clock: 'M10 17a7 7 0 1 0 0-14 7 7 0 0 0 0 14zM10 6v4.2l2.8 1.7',
  chev: 'M8 5.5L12.5 10 8 14.5',
  down: 'M5.5 8L10 12.5 14.5 8',
  home: 'M3.5 9.5L10 4l6.5 5.5M5.5 8.5V16h9V8.5',
  shield: 'M10 3l6 2.2v4.3c0 3.7-2.5 6.3-6 7.5-3.5-1.2-6-3.8-6-7.5V5.2z',
  users:
    'M7.5 9.5a2.5 2.5 0 1 0 0-5 2.5 2.5 0 0 0 0 5zM3 16c0-2.6 2-4.2 4.5-4.2S12 13.4 12 16M13 9.3a2.2 2.2 0 1 0-.6-4.3M13.8 12c1.9.4 3.2 1.9 3.2 4',
  list: 'M7 5.5h9.5M7 10h9.5M7 14.5h9.5M3.6 5.5h.1M3.6 10h.1M3.6 14.5h.1',
  nodes:
    'M10 5.5a2 2 0 1 0 0-.1M5 16a2 2 0 1 0 0-.1M15 16a2 2 0 1 0 0-.1M9 7.2l-3 6.9M11 7.2l3 6.9M7 15.9h6',
  chart: 'M3.5 3.5v13h13M6.5 13l3-4 2.5 2 4-5.5',
  audit: 'M5 3.5h7l3 3v10H5zM7.5 9h5M7.5 12h5M7.5 6.3h2',
  cog: 'M10 12.5a2.5 2.5 0 1 0 0-5 2.5 2.5 0 0 0 0 5zM10 3v2M10 15v2M3 10h2M15 10h2M5 5l1.4 1.4M13.6 13.6L15 15M5 15l1.4-1.4M13.6 6.4L15 5',
  wand: 'M4 16l8-8M11 4v2M14.5 5.5l-1.3 1.3M16 9h-2M10 9l1 1',
  info: 'M10 17a7 7 0 1 0 0-14 7 7 0 0 0 0 14zM10 9.2v4M10 6.6v.1',
  warn: 'M10 3.5l7 12.5H3zM10 8.5v3.5M10 14v.1',
  check: 'M4.5 10.5l3.5 3.5 7.5-8',
  more: 'M5 10h.1M10 10h.1M15 10h.1',
  plus: 'M10 4v12M4 10h12',
  undo: 'M6 5L3 8l3 3M3.5 8H12a4.5 4.5 0 0 1 0 9H8',
  swap: 'M4 7h11l-3-3M16 13H5l3 3',
  star: 'M10 3.5l2 4.3 4.6.5-3.4 3.2.9 4.6L10 13.8l-4.1 2.3.9-4.6L3.4 8.3 8 7.8z',
  menu: 'M3.5 6h13M3.5 10h13M3.5 14h13',
  dl: 'M10 3.5v8.5M6.8 9L10 12.2 13.2 9M4 16.5h12',
  up: 'M10 12.2V3.7M6.8 6.9L10 3.7l3.2 3.2M4 16.5h12',
  tree: 'M4 4v10.5h5M4 8h5M11.5 6.2h5v3.4h-5zM11.5 12.8h5v3.4h-5z',
  link: 'M8.5 11.5l3-3M7 9L5 11a2.8 2.8 0 0 0 4 4l2-2M13 11l2-2a2.8 2.8 0 0 0-4-4L9 7',
  layers: 'M10 3.2l7 3.6-7 3.6-7-3.6zM3.4 10.4l6.6 3.4 6.6-3.4M3.4 13.6L10 17l6.6-3.4',
  bolt: 'M11 2.8L4.8 11H10l-1 6.2L15.2 9H10z',
  close: 'M5 5l10 10M15 5L5 15',
  trash: 'M4 6h12M8 6V4h4v2M6 6l.7 10h6.6L14 6M8.5 9v4.5M11.5 9v4.5',
  out: 'M12 4H5v12h7M9 10h8M14 7l3 3-3 3',
  terminal: 'M3.5 4.5h13v11h-13zM6.5 8l2 2-2 2M10.5 12.5h3',
  user: 'M10 10a3 3 0 1 0 0-6 3 3 0 0 0 0 6zM4 17c0-3.2 2.6-5 6-5s6 1.8 6 5',
  grid: 'M4 4h5v5H4zM11 4h5v5h-5zM4 11h5v5H4zM11 11h5v5h-5z',
  flag: 'M5 17V4h9l-1.5 3L14 10H5',
  pause: 'M7 4.5v11M13 4.5v11',
  play: 'M6 4l10 6-10 6z',
  file: 'M5 3.5h6l4 4v9H5zM11 3.5v4h4',
} as const;
export type IconName = keyof typeof P;

export function Icon({
  name,
  small = true,
  class: extra = '',
}: {
  name: IconName;
  small?: boolean;
  class?: string;
}) {
  return (
    <svg viewBox="0 0 20 20" class={`i ${small ? 's' : ''} ${extra}`} aria-hidden="true">
      <path d={P[name]} />
    </svg>
  );
}

/** Callisto's Valhalla basin: rings off the centre of a disc. */
export function Mark() {
  return (
    <svg viewBox="0 0 24 24" aria-hidden="true" class="mark">
      <circle cx="12" cy="12" r="11" fill="currentColor" />
      {[
        [2.1, 1],
        [4.6, 0.8],
        [7.2, 0.5],
      ].map(([r, opacity]) => (
        <circle
          cx="9.4"
          cy="9.6"
          r={r}
          fill={(r ?? 0) < 3 ? 'var(--surface)' : 'none'}
          stroke="var(--surface)"
          stroke-width="1.25"
          stroke-opacity={opacity}
        />
      ))}
    </svg>
  );
}
