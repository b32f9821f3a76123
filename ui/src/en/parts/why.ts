// The words of `parts/why.tsx`.
export const entity = (entityId: string): string => ` (entity ${entityId})`;
export const inTheNamespace = (namespace: string): string => ` in the namespace "${namespace}"`;
export const whyNot = (cap: string): string => `Why not ${cap}?`;
export const copyARequestForAnAdministrator = 'Copy a request for an administrator';
export const isNotAllowedFor = 'is not allowed for';
export const noRuleOfYourPoliciesGrants = 'No rule of your policies grants it. The server does not tell this token which rule decides.';
export const yourPolicies = 'Your policies';
export const noRuleOfThesePoliciesMatches = 'No rule of these policies matches';
export const soIsRefused = (cap: string): string => `, so ${cap} is refused.`;
export const lost = 'lost';
export const line = (line: number): string => `, line ${line}`;
