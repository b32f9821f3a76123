// The words of `workers/import.ts`.
export const nestedDeeperThan = (dEPTHMAX: number): string => `nested deeper than ${dEPTHMAX}`;
export const noYaml = 'no YAML';
