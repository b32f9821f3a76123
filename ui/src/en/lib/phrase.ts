// The words of `lib/phrase.ts`.
export const aPhraseNeedsHttpsThisBrowser = 'A phrase needs HTTPS: this browser has no encryption for pages over plain HTTP.';
export const thePhraseIsWrong = 'The phrase is wrong.';
