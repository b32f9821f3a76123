// The words of `screens/secrets/due.tsx`.
export const overdueSince = (replace: string): string => `overdue since ${replace}`;
