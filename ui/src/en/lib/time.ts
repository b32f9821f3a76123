// The words of `lib/time.ts`.
export const justNow = 'just now';
export const today = (part: string): string => `today ${part}`;
export const bytes = (size: number): string => `${size} bytes`;
