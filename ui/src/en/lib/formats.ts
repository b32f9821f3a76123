// The words of `lib/formats.ts`.
export const kubernetesSecret = 'Kubernetes Secret';
export const noNameValue = 'no NAME=value';
export const standsTwiceTheLastOneCounts = (key: string): string => `${key} stands twice; the last one counts`;
export const anObjectIsExpectedNamesAnd = 'an object is expected: names and values, or paths and secrets';
export const isNoBase64OfTextKept = (key: string): string => `${key} is no base64 of text: kept as it is`;
export const noJson = 'no JSON';
export const aQuoteIsNotClosed = 'a quote is not closed';
export const pathKeyAndValueAreExpected = 'path, key and value are expected';
