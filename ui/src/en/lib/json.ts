// The words of `lib/json.ts`.
export const lineColumn = (line: number, column: number, message: string): string => `line ${line}, column ${column}: ${message}`;
export const aStringIsExpectedOrOne = 'a string is expected, or one is not closed';
export const nestedDeeperThan = (dEPTHMAX: number): string => `nested deeper than ${dEPTHMAX}`;
export const theTextEndsTooEarly = 'the text ends too early';
export const unexpected = (jSON: string): string => `unexpected ${jSON}`;
export const isExpectedAfterAKey = '":" is expected after a key';
export const orIsExpected = '"," or "}" is expected';
export const orIsExpected2 = '"," or "]" is expected';
export const thereIsMoreAfterTheEnd = 'there is more after the end';
