// The words of `parts/ui.tsx`.
export const needsOn = (cap: string | undefined, path: string | undefined): string => `Needs ${cap} on ${path}`;
export const copy = (label: string): string => `Copy ${label}`;
export const youHaveNoRightToThis = 'You have no right to this';
export const thereIsNothingHere = 'There is nothing here';
export const theServerCannotBeReached = 'The server cannot be reached';
export const theServerRefused = 'The server refused';
export const thisDidNotWork = 'This did not work';
export const noScreenHasThisAddress = 'No screen of this page has this address.';
export const asked = 'Asked:';
export const answer = (status: number): string => `· answer ${status}`;
export const why = 'Why?';
export const tryAgain = 'Try again';
export const home = 'Home';
export const noRight = 'No right: ';
export const request = '· request';
export const loading = 'Loading';
export const command = 'Command';
