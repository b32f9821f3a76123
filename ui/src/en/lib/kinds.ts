// The words of `lib/kinds.ts`.
export const nullIt = 'null';
export const number = 'number';
export const trueOrFalse = 'true or false';
export const listOf = (value: number): string => `list of ${value}`;
export const key = 'key';
export const keysInside = (counted: string): string => `${counted} inside`;
export const pemBytes = (toLowerCase: string | undefined, length: string): string => `PEM ${toLowerCase} · ${length} bytes`;
export const jwt = (part: string, part2: string): string => `JWT · ${part}${part2}`;
export const jsonText = 'JSON text';
export const url = 'URL';
export const line = 'line';
export const expired = 'expired';
export const expires = 'expires';
