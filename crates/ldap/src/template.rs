//! Templates: text in which `{{.Name}}` and `{{.Name | function}}` stand for values.

/// Longest template, in bytes.
pub(crate) const TEMPLATE_BYTES_MAX: usize = 32 << 10;

/// A piece of a template.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum TemplatePiece<'t> {
    /// Text as it is.
    Text(&'t str),
    /// A value: its name, and the functions that it goes through.
    Value(&'t str, &'t str),
    /// The same, in quotes before anything else.
    Quoted(&'t str, &'t str),
}

/// The pieces of a template.
///
/// # Errors
/// What is wrong with it.
pub(crate) fn pieces(template: &str) -> Result<Vec<TemplatePiece<'_>>, String> {
    if template.len() > TEMPLATE_BYTES_MAX {
        return Err(format!("longer than {TEMPLATE_BYTES_MAX} bytes"));
    }
    let mut found = Vec::new();
    let mut rest = template;
    while let Some((before, after)) = rest.split_once("{{") {
        let (inside, after) = after.split_once("}}").ok_or("a {{ without its }}")?;
        let (name, functions) = match inside.split_once('|') {
            Some((name, functions)) => (name.trim(), functions.trim()),
            None => (inside.trim(), ""),
        };
        // Active Directory takes a password in quotes: `printf "%q" .Password`.
        let name = match name.strip_prefix("printf \"%q\"").map(str::trim) {
            Some(quoted) if quoted.starts_with('.') => {
                found.push(TemplatePiece::Text(before));
                found.push(TemplatePiece::Quoted(quoted, functions));
                rest = after;
                continue;
            }
            _ => name,
        };
        if !name.starts_with('.') {
            return Err(format!("{{{{{inside}}}}} names no value"));
        }
        found.push(TemplatePiece::Text(before));
        found.push(TemplatePiece::Value(name, functions));
        rest = after;
    }
    found.push(TemplatePiece::Text(rest));
    Ok(found)
}
