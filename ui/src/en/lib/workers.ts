// The words of `lib/workers.ts`.
export const noWorkerOfThisPage = 'no worker of this page';
export const itTakesTooLongToRead = 'it takes too long to read';
export const itCannotBeRead = 'it cannot be read';
