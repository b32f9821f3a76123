// The words of `lib/session.ts`.
export const theServerGaveNoToken = 'The server gave no token.';
