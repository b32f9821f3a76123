// Texts of commands that people copy.
/** A word for a shell. */
export const quoted = (text: string): string =>
  /^[\w./@:=-]+$/.test(text) ? text : `'${text.replaceAll("'", `'\\''`)}'`;
