// The words of `parts/namespaces.tsx`.
export const go = 'Go';
export const nameOrPath = 'Name or path';
export const noNamespaceCanBeListedWith = 'No namespace can be listed with this token. Type the path of one you know.';
