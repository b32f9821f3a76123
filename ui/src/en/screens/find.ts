// The words of `screens/find.tsx`.
export const find = 'Find';
export const namesMetadataAndKeysOverEvery = 'Names, metadata and keys, over every mount that you reach. Values are never searched.';
export const what = 'What';
export const stripe = 'stripe';
export const metadata = 'metadata ·';
export const toRotate = 'to rotate ·';
export const nameOfAKey = 'name of a key ·';
export const folder = 'folder';
export const typeAPartOfAName = 'Type a part of a name';
export const found = (hits: string, part: string): string => `${hits}${part} found`;
export const searching = 'Searching…';
export const noNameMatches = 'No name matches';
export const searched = (looked: string): string => `${looked} searched.`;
export const couldNotBeSearched = (counted: string): string => `${counted} could not be searched:`;
export const mount = 'mount';
