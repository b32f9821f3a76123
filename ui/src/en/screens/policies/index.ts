// The words of `screens/policies/index.tsx`.
export const readsOneFolder = 'Reads one folder';
export const aTeamWithItsOwnFolder = 'A team with its own folder';
export const anOperatorWithoutSecrets = 'An operator without secrets';
export const eachNamesPathsAndWhatMay = 'Each names paths and what may be done there. Nothing is allowed that no policy allows.';
export const simulate = 'Simulate';
export const newPolicy = 'New policy';
export const policies = (data: number): string => `${data} policies`;
export const builtIn = 'built in';
export const yours = 'yours';
export const beginWithOneOfThree = 'Begin with one of three';
export const aTemplateIsATextTo = 'A template is a text to change, not a rule.';
export const policyNameIsLongerThan = (bytes: number): string => `policy name is longer than ${bytes} bytes`;
export const lowerCase = 'lower case';
