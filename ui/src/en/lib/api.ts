// The words of `lib/api.ts`.
export const theServerCannotBeReached = 'The server cannot be reached.';
export const permissionDenied = 'permission denied';
export const thereIsNothingAtThisPath = 'There is nothing at this path.';
export const tooManyRequests = 'Too many requests.';
export const theServerCannotAnswerNow = 'The server cannot answer now.';
export const theServerAnswered = (status: number): string => `The server answered ${status}.`;
export const theServerDoesNotAnswerTrying = 'The server does not answer; trying again.';
export const tooManyRequestsGoingOnIn = (math: number): string => `Too many requests; going on in ${math} s.`;
export const waitingForThisServerToCatch = 'Waiting for this server to catch up.';
export const tryingAgain = (message: string): string => `The server says: ${message}. Trying again.`;
export const theClusterIsChoosingALeader = 'The cluster is choosing a leader; going on by itself.';
