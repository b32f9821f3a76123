// Names of keys that hide something.
import * as en from '../../en/screens/secrets/keys.ts';
/** What a person may not see in a key: blanks at its ends, letters that look like others. */
export function warningOf(key: string): string | undefined {
  if (key !== key.trim()) return en.blanksAtItsEnd;
  if (/[\u0400-\u04ff\u0370-\u03ff]/.test(key) && /[A-Za-z]/.test(key))
    return en.lettersOfTwoAlphabetsThatLook;
  if (/[\u200b-\u200f\u202a-\u202e\u2060-\u2069\ufeff]/.test(key))
    return en.charactersThatCannotBeSeen;
  return undefined;
}
