//! Templates of identity in what roles allow: `{{identity.entity.name}}` and others, filled in for who asks.
//!
//! What a template stands for is literal: it is filled in first, and read by the rules of its engine afterwards. So an engine says what
//! may stand in a place, and a value with anything else makes the whole text stand for nothing, as does a value that who asks has not.

use kallisto_engine::TemplateValues;

/// Most places of a template that are filled in.
const PLACES_MAX: usize = 16;

/// Whether a text has places to fill in.
pub(crate) fn is_template(text: &str) -> bool {
    text.split_once("{{").is_some_and(|(_, rest)| rest.contains("}}"))
}

/// A template, filled in; `None` when it stands for nothing, or for what `admits` refuses.
pub(crate) fn fill(
    template: &str,
    values: &dyn TemplateValues,
    admits: impl Fn(&str) -> bool,
) -> Option<String> {
    let mut filled = String::with_capacity(template.len());
    let mut left = template;
    for _ in 0..=PLACES_MAX {
        let Some((before, rest)) = left.split_once("{{") else {
            filled.push_str(left);
            return Some(filled);
        };
        let (name, after) = rest.split_once("}}")?;
        let value = values.value(name.trim())?;
        if value.is_empty() || !admits(&value) {
            return None;
        }
        filled.push_str(before);
        filled.push_str(&value);
        left = after;
    }
    None
}

/// Whether a value is one word that is seen as it is: no space, no control character, nothing that turns the text around it.
pub(crate) fn is_word(value: &str) -> bool {
    !value.chars().any(|c| c.is_control() || c.is_whitespace() || is_marker(c))
}

/// Characters that are not seen and change how what is around them is.
pub(crate) const fn is_marker(c: char) -> bool {
    matches!(c, '\u{200b}'..='\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2060}'..='\u{2069}' | '\u{feff}')
}
