// The words of `screens/shared.tsx`.
export const notOpened = 'not opened';
export const untilItsEnd = 'until its end';
export const theLinkOpensNothingAnyMore = 'The link opens nothing any more';
export const linksThatOpenOnceThisList = 'Links that open once. This list is kept for your session and ends with it; the links do not.';
export const shareAText = 'Share a text';
export const noLinkYet = 'No link yet';
export const forSomebodyWithoutAnAccountThe = 'For somebody without an account: the link opens once, and you see whether it was.';
export const links = 'Links';
export const note = 'Note';
export const made = 'Made';
export const ends = 'Ends';
export const withdraw = 'Withdraw';
export const openedBySomebodyElseThanYou = 'Opened by somebody else than you meant? Change what it held: a link that was opened once cannot be closed.';
