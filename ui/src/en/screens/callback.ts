// The words of `screens/callback.tsx`.
export const signingInFailed = 'Signing in failed';
export const signingIn = 'Signing in…';
export const startAgain = 'Start again';
