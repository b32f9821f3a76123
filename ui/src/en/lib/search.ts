// The words of `lib/search.ts`.
export const mount = 'mount';
export const isNoTime = (text: string): string => `due:${text} is no time: due:<30d, due:2w or due:2026-12-31.`;
export const mounts = 'mounts';
