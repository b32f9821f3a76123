// Short notices at the foot of the page, read aloud by screen readers.
import { signal } from '@preact/signals';

export interface Toast {
  id: number;
  text: string;
  countdown?: number;
  action?: { label: string; run: () => void };
}
export const toasts = signal<Toast[]>([]);
let next = 1;
const SHOWN_MS = 5000;
const TOASTS_MAX = 4;

export function toast(text: string, countdown?: number, action?: Toast['action']): void {
  const made: Toast = {
    id: next++,
    text,
    ...(countdown ? { countdown } : {}),
    ...(action ? { action } : {}),
  };
  toasts.value = [
    ...toasts.peek().filter((one) => one.countdown === undefined || !countdown),
    made,
  ].slice(-TOASTS_MAX);
  setTimeout(() => dismiss(made.id), action ? SHOWN_MS * 3 : SHOWN_MS);
}
export const dismiss = (id: number): void => {
  toasts.value = toasts.peek().filter((one) => one.id !== id);
};
