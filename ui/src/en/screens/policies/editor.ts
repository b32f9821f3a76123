// The words of `screens/policies/editor.tsx`.
export const leaveWithoutSaving = 'Leave without saving?';
export const whatYouChangedInIsLost = (name: string): string => `What you changed in ${name} is lost.`;
export const policySaved = 'Policy saved';
export const deleteIt = (name: string): string => `Delete ${name}?`;
export const whoeverHasItLosesAtOnce = 'Whoever has it loses at once what it allows. Tokens and roles keep its name, which then allows nothing.';
export const policyDeleted = 'Policy deleted';
export const policy = (name: string): string => `Policy ${name}`;
export const newNotSaved = 'new, not saved';
export const draftNotSaved = 'draft, not saved';
export const deleteThePolicy = 'Delete the policy';
export const textOf = (name: string): string => `Text of ${name}`;
export const line = (line: number): string => `Line ${line}:`;
export const rulesNothingStandsOut = (rules: number): string => `${rules} rules; nothing stands out.`;
export const theRootPolicyHasNoText = 'The root policy has no text: it allows everything.';
export const simulator = 'Simulator';
export const save = (name: string): string => `Save ${name}?`;
export const back = 'Back';
export const itHoldsAtOnceForEvery = 'It holds at once, for every token that has this policy.';
