// The words of `screens/authorize.tsx`.
export const theServerGaveNoCode = 'The server gave no code.';
export const signInToAnApplicationKallisto = 'Sign in to an application · Kallisto';
export const signInToAnApplication = 'Sign in to an application';
export const thisAddressLacksWhatTheApplication = 'This address lacks what the application has to say: a provider and a redirect_uri.';
export const asksWhoYouAreItLearns = 'asks who you are. It learns what the scopes';
export const tellAbout = 'tell about';
export const goOnTo = (host: string): string => `Go on to ${host}`;
