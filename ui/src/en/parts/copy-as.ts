// The words of `parts/copy-as.tsx`.
export const requestsOfThisScreen = 'Requests of this screen';
export const cli = 'CLI';
export const curl = 'curl';
export const thisScreenHasMadeNoRequest = 'This screen has made no request that can be written so.';
export const tokensAndValuesAreLeftOut = 'Tokens and values are left out: fill in what stands as …';
