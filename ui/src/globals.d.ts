// What the build puts in place of words and files.
declare const __DEV__: boolean;
declare module '*.woff2' {
  const url: string;
  export default url;
}
declare module '*.css';
