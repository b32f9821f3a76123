// The words of `screens/secrets/goto.tsx`.
export const goToAPath = 'Go to a path';
export const open = 'Open';
