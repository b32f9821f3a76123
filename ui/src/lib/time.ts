// Times, counts and sizes as people read them, by `Intl`.
import * as en from '../en/lib/time.ts';
const relative = new Intl.RelativeTimeFormat('en', { numeric: 'auto', style: 'long' });
const moment = new Intl.DateTimeFormat('en-GB', {
  day: 'numeric',
  month: 'short',
  hour: '2-digit',
  minute: '2-digit',
});
const dayYear = new Intl.DateTimeFormat('en-GB', {
  day: 'numeric',
  month: 'short',
  year: 'numeric',
});
const full = new Intl.DateTimeFormat('en-GB', {
  day: 'numeric',
  month: 'short',
  year: 'numeric',
  hour: '2-digit',
  minute: '2-digit',
  second: '2-digit',
  timeZone: 'UTC',
  timeZoneName: 'short',
});
const whole = new Intl.NumberFormat('en');
const STEPS: [number, Intl.RelativeTimeFormatUnit, string][] = [
  [31_536_000, 'year', 'y'],
  [2_592_000, 'month', 'mo'],
  [604_800, 'week', 'wk'],
  [86_400, 'day', 'd'],
  [3600, 'hour', 'h'],
  [60, 'minute', 'min'],
  [1, 'second', 's'],
];

export const ms = (time: string | number | undefined | null): number =>
  typeof time === 'number' ? time : time ? Date.parse(time) : NaN;

/** "41 minutes ago". */
export function ago(time: string | number, now = Date.now()): string {
  const seconds = (ms(time) - now) / 1000;
  if (Number.isNaN(seconds)) return '';
  if (Math.abs(seconds) < 5) return en.justNow;
  for (const [size, unit] of STEPS)
    if (Math.abs(seconds) >= size) return relative.format(Math.round(seconds / size), unit);
  return en.justNow;
}
/** "41 min", for a column. */
export function short(time: string | number, now = Date.now()): string {
  const seconds = Math.abs(now - ms(time)) / 1000;
  if (Number.isNaN(seconds)) return '';
  for (const [size, , unit] of STEPS)
    if (seconds >= size) return `${Math.floor(seconds / size)} ${unit}`;
  return 'now';
}
/** "today 13:42", "18 Nov 16:03", "2 Oct 2024". */
export function when(time: string | number): string {
  const date = new Date(ms(time));
  if (Number.isNaN(date.getTime())) return '';
  const now = new Date();
  if (date.toDateString() === now.toDateString())
    return en.today(moment.format(date).split(', ')[1] ?? '');
  return date.getFullYear() === now.getFullYear()
    ? moment.format(date).replace(',', '')
    : dayYear.format(date);
}
/** "23 Nov 2026, 13:42:07 UTC". */
export const exact = (time: string | number): string => {
  const date = new Date(ms(time));
  return Number.isNaN(date.getTime()) ? '' : full.format(date);
};
/** "1 h 4 min", of seconds. */
export function span(seconds: number): string {
  if (!Number.isFinite(seconds) || seconds <= 0) return '0 s';
  const parts: string[] = [];
  let rest = Math.round(seconds);
  for (const [size, unit] of [
    [86_400, 'd'],
    [3600, 'h'],
    [60, 'min'],
    [1, 's'],
  ] as const) {
    const count = Math.floor(rest / size);
    if (count > 0 && parts.length < 2) {
      parts.push(`${count} ${unit}`);
    }
    rest -= count * size;
    if (parts.length === 2) break;
  }
  return parts.join(' ');
}
export const count = (number: number): string => whole.format(number);
const forms = new Intl.PluralRules('en');
export const plural = (number: number, one: string, many = `${one}s`): string =>
  `${count(number)} ${forms.select(number) === 'one' ? one : many}`;
export function bytes(size: number): string {
  for (const [unit, name] of [
    [1e9, 'GB'],
    [1e6, 'MB'],
    [1e3, 'kB'],
  ] as const)
    if (size >= unit) return `${(size / unit).toFixed(size / unit < 10 ? 1 : 0)} ${name}`;
  return en.bytes(size);
}
/** Control and bidi characters made visible, so that a name cannot look like another. */
export const visible = (text: string): string =>
  text.replace(
    /[\u0000-\u001f\u007f-\u009f\u00ad\u061c\u180e\u200b-\u200f\u2028-\u202e\u2060-\u2069\ufeff]/g,
    (character) =>
      `\u2039U+${character.charCodeAt(0).toString(16).toUpperCase().padStart(4, '0')}\u203a`,
  );
/** The same for a name: blanks at its ends are part of it, and cannot be seen. */
export const named = (text: string): string =>
  visible(text).replace(/^ +| +$/g, (blanks) => '\u2420'.repeat(blanks.length));
/** The same for a text of several lines: line ends and tabs stay. */
export const visibleText = (text: string): string =>
  text
    .split(/([\n\t])/)
    .map((part) => (part === '\n' || part === '\t' ? part : visible(part)))
    .join('');
