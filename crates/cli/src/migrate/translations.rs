//! Ids of the source and what they are at the target: accessors of login methods, ids of entities and groups.
//!
//! A server draws them itself, so they differ; what names them (aliases, members of groups, templates in policies) names the target's instead.

use std::collections::BTreeMap;

/// What is known by now.
#[derive(Default)]
pub(super) struct Translations(BTreeMap<String, String>);

impl Translations {
    /// Notes what an id of the source is at the target.
    pub(super) fn add(&mut self, there: &str, here: &str) {
        if !there.is_empty() && !here.is_empty() {
            self.0.insert(there.to_owned(), here.to_owned());
        }
    }

    /// What an id of the source is at the target.
    pub(super) fn of(&self, there: &str) -> Option<&str> {
        self.0.get(there).map(String::as_str)
    }

    /// A text with every known id replaced.
    pub(super) fn in_text(&self, text: &str) -> String {
        let mut text = text.to_owned();
        for (there, here) in self.0.iter().filter(|(there, here)| there != here) {
            if text.contains(there.as_str()) {
                text = text.replace(there.as_str(), here);
            }
        }
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_in_a_text_become_those_of_the_target() {
        let mut known = Translations::default();
        known.add("auth_userpass_1", "auth_userpass_2");
        known.add("", "x");
        let text = "{{identity.entity.aliases.auth_userpass_1.name}} auth_userpass_3";
        assert_eq!(
            known.in_text(text),
            "{{identity.entity.aliases.auth_userpass_2.name}} auth_userpass_3"
        );
        assert_eq!(known.of("auth_userpass_1"), Some("auth_userpass_2"));
        assert_eq!(known.of(""), None);
    }
}
