// The words of `screens/secrets/conflict.tsx`.
export const somebodySavedVersionMeanwhile = (version: number): string => `Somebody saved version ${version} meanwhile`;
export const backToTheEdit = 'Back to the edit';
export const saveOverVersion = (version: number): string => `Save over version ${version}`;
export const thatOnlyTheyTouchedTakenOver = (counted: string, part: string): string => `${counted} that only they touched ${part} taken over:`;
export const theyTouchedNoKeyThatYou = 'They touched no key that you did not.';
export const nothingClashesWithYours = 'Nothing clashes with yours.';
export const changedOnBothSidesChoose = (counted: string): string => `${counted} changed on both sides: choose.`;
export const was = 'was';
export const key = 'key';
export const is = 'is';
export const are = 'are';
