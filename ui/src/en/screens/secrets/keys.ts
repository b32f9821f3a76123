// The words of `screens/secrets/keys.ts`.
export const blanksAtItsEnd = 'blanks at its end';
export const lettersOfTwoAlphabetsThatLook = 'letters of two alphabets that look alike';
export const charactersThatCannotBeSeen = 'characters that cannot be seen';
