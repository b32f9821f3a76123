// The words of `screens/secrets/use.tsx`.
export const how = 'How';
export const inTheWebInterfaceTheCommand = 'In the web interface, the command line and the API a secret has one path.';
export const thePathIsFilledInValues = 'The path is filled in, values and tokens never are. Set';
export const andATokenOfYourOwn = 'and a token of your own.';
