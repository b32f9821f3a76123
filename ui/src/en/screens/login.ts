// The words of `screens/login.tsx`.
export const signIn = 'Sign in';
export const method = 'Method';
export const asInAuthMount = 'as in auth/MOUNT';
export const theBrowserPresentsTheCertificateOf = 'The browser presents the certificate of this connection. It has to have one that this server trusts.';
export const continueWith = (part: string): string => `Continue with ${part}`;
export const howToSignIn = 'How to sign in';
export const other = 'Other';
export const signInKallisto = 'Sign in · Kallisto';
export const signInToKallisto = 'Sign in to Kallisto';
export const theServerDoesNotAnswer = 'The server does not answer.';
export const kallisto = (version: string): string => `Kallisto ${version} ·`;
export const openASharedSecret = 'open a shared secret';
