// The words of `lib/paths.ts`: those with which the server refuses such a path.
export const pathIsLongerThan = (bytes: number): string => `path is longer than ${bytes} bytes`;
export const pathHasMoreThan = (segments: number): string => `path has more than ${segments} segments`;
export const pathIsNotUtf8 = 'path is not valid UTF-8';
export const pathHasAControlCharacter = 'path has a control character';
export const pathHasABackslash = 'path has a backslash';
export const pathHasADotSegment = "path has a '.' or '..' segment";
export const pathHasAnEmptySegment = 'path has an empty segment';
