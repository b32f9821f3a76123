// The words of `parts/dialog.tsx`.
export const typeToGoOn = (typed: string): string => `Type ${typed} to go on`;
