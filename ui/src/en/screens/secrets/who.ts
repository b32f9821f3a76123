// The words of `screens/secrets/who.tsx`.
export const right = 'Right';
export const you = 'You:';
export const may = (cap: string): string => `may ${cap}`;
export const mayNot = (cap: string): string => `may not ${cap}`;
export const aRootTokenMayDoEverything = 'A root token may do everything; no policy decides.';
export const capabilitiesOn = 'Capabilities on';
export const everybodyWhoCanIt = (cap: string): string => `Everybody who can ${cap} it`;
export const seeingOthersNeeds = 'Seeing others needs';
export const thisServerHasNoAccessReview = 'This server has no access review: it cannot say who else may.';
