// The words of `screens/policies/builder.tsx`.
export const rowsWriteTheTextAnewComments = 'Rows write the text anew: comments and parameter rules of the old text are lost.';
export const rule = (number: number): string => `Rule ${number}`;
export const removeRule = (number: number): string => `Remove rule ${number}`;
export const anotherRule = 'Another rule';
export const theTextCannotBeRead = (line: number, message: string): string => `The text cannot be read: line ${line}: ${message}`;
