// The words of `screens/log.tsx`.
export const thisNeedsReadAndSudoOn = 'This needs read and sudo on sys/monitor.';
export const theServerAnswered = (status: number): string => `The server answered ${status}.`;
export const theStreamHasEndedTheServer = 'The stream has ended: the server was sealed or stopped, or the token ended.';
export const log = 'Log';
export const eventsOfThisServerFromNow = 'Events of this server from now on.';
export const pause = 'Pause';
export const level = 'Level';
export const debug = 'debug';
export const info = 'info';
export const warn = 'warn';
export const error = 'error';
export const nothingHappenedYet = 'Nothing happened yet.';
