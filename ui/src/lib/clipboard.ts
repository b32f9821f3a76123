// Copying that works, also over plain HTTP, and clears what was a secret.
//
// A secret leaves the clipboard after `clipboard_secs` if the page has the focus, else when it gets it back. Without a secure context there is no
// Clipboard API: a selection is copied, and the notice says that it cannot be cleared.
import * as en from '../en/lib/clipboard.ts';
import { toast } from './toasts.ts';
import { uiConfig } from './state.ts';

let clearing: ReturnType<typeof setTimeout> | undefined;
let isDue = false;

async function write(text: string): Promise<boolean> {
  if (navigator.clipboard && isSecureContext) {
    try {
      await navigator.clipboard.writeText(text);
      return true;
    } catch {
      /* Refused by the browser: the old way may work. */
    }
  }
  const area = document.createElement('textarea');
  area.value = text;
  area.className = 'sr';
  area.setAttribute('aria-hidden', 'true');
  (document.querySelector('dialog[open]') ?? document.body).append(area);
  area.select();
  const done = document.execCommand('copy');
  area.remove();
  return done;
}

async function clear(): Promise<void> {
  if (!document.hasFocus()) {
    isDue = true;
    return;
  }
  isDue = false;
  await write(' ');
}

/** Copies text that is no secret. */
export async function copy(text: string, what: string): Promise<void> {
  if (!(await write(text))) return toast(en.theBrowserDoesNotAllowCopying);
  // The secret that was there is gone already.
  clearTimeout(clearing);
  isDue = false;
  toast(en.copied(what));
}

/** Copies a value, and clears the clipboard later. */
export async function copySecret(text: string, what: string): Promise<void> {
  if (!(await write(text))) return toast(en.theBrowserDoesNotAllowCopying);
  const seconds = uiConfig.peek().clipboard_secs;
  clearTimeout(clearing);
  if (!isSecureContext) return toast(en.copiedWithoutHttpsThePageCannot(what));
  clearing = setTimeout(() => void clear(), seconds * 1000);
  toast(en.copiedTheClipboardIsClearedIn(what, seconds), seconds);
}

addEventListener('focus', () => {
  if (isDue) void clear();
});
