// The words of `screens/secrets/meta.tsx`.
export const metadataSaved = 'Metadata saved';
export const aboutThisSecret = 'About this secret';
export const metadataIsNoSecretWhoeverMay = 'Metadata is no secret: whoever may read it or list here can see it, and it can be searched, as';
export const rotateBy = 'Rotate by';
export const owner = 'Owner';
export const keptAsDueHomeRemindsOf = 'kept as due; home reminds of it';
export const remove = (key: string): string => `Remove ${key}`;
export const anotherPair = 'Another pair';
export const versionsKept = 'Versions kept';
export const n0AsTheMountSays = '0: as the mount says';
export const deleteAVersionAfter = 'Delete a version after';
export const suchAs720h0sNever = 'such as 720h; 0s: never';
export const writesMustSayWhichVersionThey = 'Writes must say which version they replace';
export const checkAndSet = 'check-and-set';
export const saveMetadata = 'Save metadata';
