// The words of `screens/secrets/index.tsx`.
export const keyValueSecrets = 'key/value secrets';
export const privateToYourTokenAndGone = 'private to your token, and gone with it';
export const encryptionAndSignaturesAsAService = 'encryption and signatures as a service';
export const oneTimePasswords = 'one-time passwords';
export const credentialsOfDatabasesMadeWhen = 'credentials of databases, made when asked for';
export const credentialsOfRabbitmqMadeWhenAsked = 'credentials of RabbitMQ, made when asked for';
export const passwordsOfADirectory = 'passwords of a directory';
export const tokensOfKubernetes = 'tokens of Kubernetes';
export const sshCertificates = 'SSH certificates';
export const peopleAndApps = 'people and apps';
export const theServerItself = 'the server itself';
export const eachMountIsAPlaceOf = 'Each mount is a place of its own, with its own versions and rights.';
export const noMountIsReachableWithThis = 'No mount is reachable with this token';
export const yourPolicies = 'Your policies:';
export const version = (version: number): string => ` version ${version}`;
export const itsRoutesInTheApiConsole = 'Its routes, in the API console';
export const folder = 'Folder';
