// The words of `screens/review-list.tsx`.
export const nobodyButRoot = 'Nobody but root.';
export const who = 'Who';
export const through = 'Through';
export const until = 'Until';
export const line = (line: number): string => `, line ${line}`;
export const subjects = 'Subjects';
