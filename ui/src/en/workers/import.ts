// The words of `workers/import.ts`.
export const nestedDeeperThan = (dEPTHMAX: number): string => `nested deeper than ${dEPTHMAX}`;
export const noYaml = 'no YAML';
export const moreAliasesThan = (aLIASESMAX: number): string => `more than ${aLIASESMAX} aliases`;
export const onlyObjectsAreMerged = 'only objects are merged (<<)';
