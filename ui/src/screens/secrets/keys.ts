// Names of keys that hide something.
/** What a person may not see in a key: blanks at its ends, letters that look like others. */
export function warningOf(key: string): string | undefined {
  if (key !== key.trim()) return 'blanks at its end';
  if (/[\u0400-\u04ff\u0370-\u03ff]/.test(key) && /[A-Za-z]/.test(key)) return 'letters of two alphabets that look alike';
  if (/[\u200b-\u200f\u202a-\u202e\u2060-\u2069\ufeff]/.test(key)) return 'characters that cannot be seen';
  return undefined;
}
