// The words of `workers/audit.ts`.
export const thisIsNoLineOfA = 'this is no line of a chain';
export const theLineWasChangedItDoes = 'the line was changed: it does not match its own hash';
export const aLineIsMissingOrMoved = (seq: number, last: number): string => `a line is missing or moved: ${seq} follows ${last}`;
export const itDoesNotFollowTheLine = 'it does not follow the line before';
export const aLineIsLongerThan8 = 'a line is longer than 8 MiB';
