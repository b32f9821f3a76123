// The words of `lib/logins.ts`.
export const userNameAndPassword = 'User name and password';
export const tlsCertificate = 'TLS certificate';
export const userName = 'User name';
export const password = 'Password';
export const roleId = 'Role id';
export const secretId = 'Secret id';
export const role = 'Role';
export const jwt = 'JWT';
export const thisTokenIsNotValidHere = 'This token is not valid here: it has ended, was revoked, or belongs to another server or namespace.';
export const lockedTooManyWrongPasswordsWait = 'Locked: too many wrong passwords. Wait, or ask an administrator to unlock it.';
export const theUserNameOrThePassword = 'The user name or the password is wrong.';
export const thereIsNoSuchLoginMethod = 'There is no such login method here.';
export const tooManyTriesWaitALittle = 'Too many tries. Wait a little.';
export const codeOfYourApp = 'Code of your authenticator app';
export const tokenOfGithub = 'Token of GitHub';
