// Words of the commands and programs that people copy.

/** A word for a shell. */
export const quoted = (text: string): string =>
  /^[\w./@:=-]+$/.test(text) ? text : `'${text.replaceAll("'", `'\\''`)}'`;

/** A text between double quotes, as Go, Java, JavaScript, Python and Rust read it. */
export const inQuotes = (text: string): string => JSON.stringify(text);

/** The same for Terraform, where `${` and `%{` begin a template. */
export const inTerraform = (text: string): string =>
  JSON.stringify(text).replace(/[$%]\{/g, (two) => two[0] + two);

/** A text in YAML, with quotes where it needs them. */
export const inYaml = (text: string): string =>
  /^[A-Za-z_][\w./-]*$/.test(text) && !/^(true|false|null|yes|no|on|off|y|n)$/i.test(text)
    ? text
    : JSON.stringify(text);
