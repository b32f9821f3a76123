// What a path may be, by the rules of the server (`crates/auth/src/path.rs`), in its words: a dialog says so before it leads anywhere.
//
// Two of the rules hold for every address that the page makes. A browser resolves the segments `.` and `..`, also where they are written `%2e`, so a
// name that has them would be another place: another screen, or another route of the API than the one that was meant. Half of a pair of UTF-16 has no
// percent-encoding. `encodePath` (`lib/api`) and `href` (`lib/router`) make no address of such a path.
import * as en from '../en/lib/paths.ts';

const PATH_BYTES_MAX = 1024;
const SEGMENTS_MAX = 32;

const isDots = (segment: string): boolean => segment === '.' || segment === '..';

/** Why no address can hold a path; `undefined` if one can. */
export function addressFault(path: string): string | undefined {
  if (/\p{Cs}/u.test(path)) return en.pathIsNotUtf8;
  return path.split('/').some(isDots) ? en.pathHasADotSegment : undefined;
}

/** Why the server refuses a path; `undefined` if it takes it. A slash at the end marks a folder. */
export function pathFault(path: string): string | undefined {
  if (new TextEncoder().encode(path).length > PATH_BYTES_MAX)
    return en.pathIsLongerThan(PATH_BYTES_MAX);
  if (/[\u0000-\u001f\u007f-\u009f]/.test(path)) return en.pathHasAControlCharacter;
  if (path.includes('\\')) return en.pathHasABackslash;
  const fault = addressFault(path);
  if (fault !== undefined || path === '') return fault;
  const segments = path.replace(/\/$/, '').split('/');
  if (segments.includes('')) return en.pathHasAnEmptySegment;
  return segments.length > SEGMENTS_MAX ? en.pathHasMoreThan(SEGMENTS_MAX) : undefined;
}
