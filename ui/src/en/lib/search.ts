// The words of `lib/search.ts`.
export const mount = 'mount';
export const mounts = 'mounts';
