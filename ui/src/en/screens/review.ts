// The words of `screens/review.tsx`.
export const accessReview = 'Access review';
export const everybodyWhoCanDoThisAt = 'Everybody who can do this at this path, and through what.';
export const whatCanSomebodyReach = 'What can somebody reach?';
export const csv = 'CSV';
export const may = 'May';
export const review = 'Review';
export const whichPath = 'Which path?';
export const thePathOfTheApiSuch = 'The path of the API, such as';
export const thisServerHasNoAccessReview = 'This server has no access review';
export const simulate = 'Simulate';
export const theSimulatorSaysForOnePerson = 'The simulator says for one person, token or set of policies what it may do, and why.';
export const subject = 'subject';
export const whoMay = (cap: string, path: string): string => `Who may ${cap} ${path}`;
export const rootTokensMayDoEverythingAnd = 'Root tokens may do everything and are listed as such. A right through a template counts for whom the template names.';
