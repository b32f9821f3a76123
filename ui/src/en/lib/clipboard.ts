// The words of `lib/clipboard.ts`.
export const copied = (what: string): string => `${what} copied`;
export const theBrowserDoesNotAllowCopying = 'The browser does not allow copying here.';
export const copiedWithoutHttpsThePageCannot = (what: string): string => `${what} copied. Without HTTPS the page cannot clear the clipboard: do it yourself.`;
export const copiedTheClipboardIsClearedIn = (what: string, seconds: number): string => `${what} copied; the clipboard is cleared in ${seconds} s`;
