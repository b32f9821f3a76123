// The words of `lib/oidc.ts`.
export const theRoleDoesNotAllowA = (callbackUrl: string): string => `The role does not allow a return to ${callbackUrl}, or there is no such role.`;
export const theProviderGaveAnAddressThat = 'The provider gave an address that is not of the web.';
export const theBrowserBlockedTheWindowFor = 'The browser blocked the window for signing in. Allow it for this page, or sign in by another method.';
export const theWindowForSigningInDid = 'The window for signing in did not come back.';
export const theProviderRefused = 'the provider refused';
export const thisLoginWasNotBegunIn = 'This login was not begun in this tab, or long ago. Start again.';
