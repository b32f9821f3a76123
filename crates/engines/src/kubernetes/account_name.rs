//! Names of service accounts that are made, and of the roles and bindings with them.
//!
//! Invariant: a name has characters that were drawn for it, so no object of that name was there before, and whoever deletes it deletes what
//! was made for its lease.

use jiff::Timestamp;
use kallisto_api::Error;
use kallisto_engine::{Call, Random};

use super::object_name::is_object_name;
use crate::username::{self, UsernameFacts, cut, random_text};

/// Most characters of a display name, and of a role's, in a name.
const PART_CHARS_MAX: usize = 8;
/// Characters that are drawn for a name.
const RANDOM_CHARS: usize = 24;
/// Fewest characters of a name by a template that have to be drawn.
const DRAWN_CHARS_MIN: usize = 8;

/// Randomness that is always the same: what it changes in a name is what is drawn.
struct Fixed(u8);

impl Random for Fixed {
    fn fill(&self, bytes: &mut [u8]) -> Result<(), Error> {
        bytes.fill(self.0);
        Ok(())
    }
}

/// Lower-case letters, digits and dashes, no dash at either end.
fn part(text: &str) -> String {
    let keep = |c: char| if c.is_ascii_alphanumeric() { c.to_ascii_lowercase() } else { '-' };
    cut(&text.chars().map(keep).collect::<String>(), PART_CHARS_MAX).trim_matches('-').to_owned()
}

fn by_template(template: &str, facts: &UsernameFacts<'_>) -> Result<String, Error> {
    let name = username::make(template, facts)?.to_ascii_lowercase();
    if is_object_name(&name) {
        return Ok(name);
    }
    Err(Error::invalid(format!(
        "name_template makes {name:?}, and a service account is called by letters, digits, dots and \
         dashes, with letters or digits at both ends"
    )))
}

/// Refuses a template of names that cannot be read, or that might make a name twice.
pub(super) fn check_template(template: &str, role_name: &str) -> Result<(), Error> {
    if template.is_empty() {
        return Ok(());
    }
    let with = |random: &Fixed| {
        let now = Timestamp::UNIX_EPOCH;
        by_template(template, &UsernameFacts { display_name: "token", role_name, now, random })
    };
    let (one, other) = (with(&Fixed(0))?, with(&Fixed(0xf7))?);
    let drawn = one.bytes().zip(other.bytes()).filter(|(a, b)| a != b).count();
    if drawn < DRAWN_CHARS_MIN {
        return Err(Error::invalid(format!(
            "name_template needs {DRAWN_CHARS_MIN} random characters at least, such as \
             {{{{random 12}}}}: names are never used twice"
        )));
    }
    Ok(())
}

/// The name of what is made for a call by a role.
pub(super) fn make(call: &Call<'_>, role_name: &str, template: &str) -> Result<String, Error> {
    let display_name = call.caller.map_or("", |caller| caller.display_name.as_str());
    let (now, random) = (call.now, call.random);
    if !template.is_empty() {
        return by_template(template, &UsernameFacts { display_name, role_name, now, random });
    }
    let drawn = random_text(random, RANDOM_CHARS)?.to_ascii_lowercase();
    Ok(format!("v-{}-{}-{}-{drawn}", part(display_name), part(role_name), now.as_second()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_template_has_to_draw_enough() {
        for good in [
            "",
            "v-{{random 8}}",
            "{{.DisplayName}}-{{uuid}}",
            "{{ printf \"v-%s-%s-%s-%s\" (.DisplayName | truncate 8) (.RoleName | truncate 8) (unix_time) (random 24) | truncate 62 | lowercase }}",
        ] {
            assert_eq!(check_template(good, "app"), Ok(()), "{good}");
        }
        for bad in [
            "fixed",
            "{{.RoleName}}-{{unix_time}}",
            "v-{{random 7}}",
            "{{random 24 | truncate 7}}",
            "{{random 24}}_x",
            "{{random 24}}.",
            "{{nope}}",
        ] {
            assert!(check_template(bad, "app").is_err(), "{bad}");
        }
    }

    #[test]
    fn parts_of_names_fit() {
        assert_eq!(part("userpass-Bob@x"), "userpass");
        assert_eq!(part("_A.b_"), "a-b");
        assert_eq!(part("---"), "");
    }
}
