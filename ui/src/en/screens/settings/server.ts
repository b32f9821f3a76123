// The words of `screens/settings/server.tsx`.
export const configuration = 'Configuration';
export const host = 'Host';
export const requestsInFlight = 'Requests in flight';
export const versionsThatRan = 'Versions that ran';
export const durabilityChanged = 'Durability changed';
export const everythingIsOnDisk = 'Everything is on disk';
export const durability = 'Durability';
export const strictAnswersAWriteOnceIt = 'Strict answers a write once it is on disk. Batch answers sooner, and a power cut may lose the last moments.';
export const mode = 'Mode';
export const strict = 'strict';
export const batch = 'batch';
export const flushToDiskNow = 'Flush to disk now';
export const levelsAreAsConfigured = 'Levels are as configured';
export const logLevels = 'Log levels';
export const asConfigured = 'As configured';
export const enginesOfThisServer = 'Engines of this server';
export const thisTokenMayNotReadIt = 'This token may not read it, or the server does not offer it.';
