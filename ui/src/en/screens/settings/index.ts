// The words of `screens/settings/index.tsx`.
export const thisBrowserAndPage = 'This browser and page';
export const sealAndKeys = 'Seal and keys';
export const settings = 'Settings';
export const log = 'Log';
export const mounts = 'Mounts';
export const quotas = 'Quotas';
export const namespaces = 'Namespaces';
export const server = 'Server';
