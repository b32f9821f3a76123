// The words of `parts/second-factor.tsx`.
export const thisLoginHasWaitedForToo = 'This login has waited for too long, or was finished already. Cancel, and sign in again.';
export const thisCodeWasUsedAlreadyWait = 'This code was used already. Wait for the next one.';
export const noAppHasBeenSetUp = 'No app has been set up for you yet. An administrator has to make a key for you.';
export const theCodeIsWrongTakeThe = 'The code is wrong. Take the one that the app shows now.';
export const theApp = 'the app';
export const theServerGaveNoToken = 'The server gave no token.';
export const aCodeIsNeeded = 'A code is needed';
export const theRuleAsksForSomethingElse = (rule: string): string => `The rule ${rule} asks for something else than a code. Sign in by the command line.`;
export const forIt = (rule: string): string => `For ${rule}`;
export const codeOf = (nameOf: string): string => `Code of ${nameOf}`;
export const withoutTheCodeThereIsNo = 'Without the code there is no signing in.';
