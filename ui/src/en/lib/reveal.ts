// The words of `lib/reveal.ts`.
export const thisVersionIsDeleted = 'This version is deleted.';
