//! Templates of claims: a JSON object in which `{{identity.entity.name}}` and the like stand for values.
//!
//! A directive stands where a value of JSON may stand, and nowhere else: not in a text, and not for a name. So a template is parsed once,
//! with the places of its directives, and what is put there later is a value whatever it says. It is never text that is parsed again.
//!
//! What there is to name:
//!
//! | directive | stands for |
//! |---|---|
//! | `identity.entity.id`, `.name` | a text |
//! | `identity.entity.metadata` | an object |
//! | `identity.entity.metadata.KEY` | a text; empty when there is none |
//! | `identity.entity.groups.ids`, `.names` | a list of texts |
//! | `identity.entity.aliases.ACCESSOR.id`, `.name`, `.metadata`, `.metadata.KEY`, `.custom_metadata`, `.custom_metadata.KEY` | the same of an alias |
//! | `identity.groups.ids.ID.name`, `identity.groups.names.NAME.id`, each `.metadata` and `.metadata.KEY` | of a group that the entity is in |
//! | `time.now`, `time.now.plus.DURATION`, `time.now.minus.DURATION` | seconds since 1970 |

use kallisto_api::json::{self, Json, Map};
use kallisto_api::{Error, Span};

use crate::claims;
use crate::subject::{SubjectAlias, SubjectMetadata, TokenSubject};

/// Longest template, in bytes.
pub const TEMPLATE_BYTES_MAX: usize = 64 << 10;
/// Most directives of a template.
const DIRECTIVES_MAX: usize = 1024;

/// A template, parsed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ClaimsTemplate {
    /// The object, in which a directive is a text of its number between two [`MARK`]s.
    root: Map,
    directives: Vec<Directive>,
}

/// Around the number of a directive. Clients that write this very text into a template get what the directive of that number stands
/// for, which they could have named.
const MARK: char = '\u{0}';

/// What stands for a value.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Directive {
    EntityId,
    EntityName,
    EntityMetadata,
    EntityMetadataKey(String),
    GroupIds,
    GroupNames,
    Alias {
        accessor: String,
        part: TemplatePart,
    },
    GroupById {
        id: String,
        part: TemplatePart,
    },
    GroupByName {
        name: String,
        part: TemplatePart,
    },
    /// Seconds from now.
    Time(i64),
}

/// What of an alias or a group.
#[derive(Clone, Debug, PartialEq, Eq)]
enum TemplatePart {
    Id,
    Name,
    Metadata,
    MetadataKey(String),
    CustomMetadata,
    CustomMetadataKey(String),
}

impl ClaimsTemplate {
    /// Reads a template; an empty one has no claims.
    ///
    /// # Errors
    /// [`Error::Invalid`] when it is none, or sets a claim that is the server's.
    pub fn parse(text: &str) -> Result<Self, Error> {
        if text.trim().is_empty() {
            return Ok(Self::default());
        }
        if text.len() > TEMPLATE_BYTES_MAX {
            return Err(Error::invalid(format!(
                "error parsing template: longer than {TEMPLATE_BYTES_MAX} bytes"
            )));
        }
        let (marked, directives) = mark(text)?;
        let root = match json::parse(marked.as_bytes()) {
            Ok(Json::Object(root)) => root,
            Ok(_) => return Err(Error::invalid("error parsing template JSON: not an object")),
            Err(error) => {
                return Err(Error::invalid(format!("error parsing template JSON: {error}")));
            }
        };
        if has_marked_name(&root) {
            return Err(Error::invalid(
                "error parsing template JSON: a directive stands for the name of a member",
            ));
        }
        if let Some(name) = root.keys().find(|name| claims::is_reserved(name)) {
            return Err(Error::invalid(format!(
                "top level key {name:?} not allowed. Restricted keys: {}",
                claims::RESERVED.join(", ")
            )));
        }
        Ok(Self { root, directives })
    }

    /// The names of the claims that it sets.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.root.keys().map(String::as_str)
    }

    /// The claims of a subject at a time.
    pub fn fill(&self, subject: &TokenSubject, now: i64) -> Map {
        self.fill_map(&self.root, subject, now)
    }

    fn fill_map(&self, map: &Map, subject: &TokenSubject, now: i64) -> Map {
        map.iter()
            .map(|(name, value)| (name.clone(), self.fill_value(value, subject, now)))
            .collect()
    }

    /// As deep as the template nests.
    fn fill_value(&self, value: &Json, subject: &TokenSubject, now: i64) -> Json {
        match value {
            Json::String(text) => match self.directive(text) {
                Some(directive) => directive.value(subject, now),
                None => value.clone(),
            },
            Json::Array(items) => {
                Json::Array(items.iter().map(|item| self.fill_value(item, subject, now)).collect())
            }
            Json::Object(map) => Json::Object(self.fill_map(map, subject, now)),
            Json::Null | Json::Bool(_) | Json::Number(_) => value.clone(),
        }
    }

    fn directive(&self, text: &str) -> Option<&Directive> {
        let number = text.strip_prefix(MARK)?.strip_suffix(MARK)?;
        self.directives.get(number.parse::<usize>().ok()?)
    }
}

fn has_marked_name(map: &Map) -> bool {
    fn within(value: &Json) -> bool {
        match value {
            Json::Object(map) => has_marked_name(map),
            Json::Array(items) => items.iter().any(within),
            _ => false,
        }
    }
    map.iter().any(|(name, value)| name.starts_with(MARK) || within(value))
}

/// The text with a mark in place of each directive.
fn mark(text: &str) -> Result<(String, Vec<Directive>), Error> {
    let unbalanced = || Error::invalid("error parsing template: unbalanced templating characters");
    let mut out = String::with_capacity(text.len());
    let mut directives = Vec::new();
    let mut rest = text;
    while let Some((before, after)) = rest.split_once("{{") {
        // Closing braces of nested objects may stand together; only those of a directive end one.
        out.push_str(before);
        let (name, after) = after.split_once("}}").ok_or_else(unbalanced)?;
        if directives.len() == DIRECTIVES_MAX {
            return Err(Error::invalid(format!(
                "error parsing template: more than {DIRECTIVES_MAX} directives"
            )));
        }
        directives.push(Directive::parse(name.trim())?);
        let number = directives.len() - 1;
        out.push_str(&format!("\"\\u0000{number}\\u0000\""));
        rest = after;
    }
    out.push_str(rest);
    Ok((out, directives))
}

impl Directive {
    fn parse(name: &str) -> Result<Self, Error> {
        let unknown = || {
            Error::invalid(
                "error parsing template: no value could be found for one of the template directives",
            )
        };
        if let Some(rest) = name.strip_prefix("time.now") {
            return time(rest).map(Self::Time);
        }
        if let Some(rest) = name.strip_prefix("identity.entity.") {
            return match rest {
                "id" => Ok(Self::EntityId),
                "name" => Ok(Self::EntityName),
                "metadata" => Ok(Self::EntityMetadata),
                "groups.ids" => Ok(Self::GroupIds),
                "groups.names" => Ok(Self::GroupNames),
                rest => {
                    if let Some(key) = rest.strip_prefix("metadata.").filter(|key| !key.is_empty())
                    {
                        return Ok(Self::EntityMetadataKey(key.to_owned()));
                    }
                    let rest = rest.strip_prefix("aliases.").ok_or_else(unknown)?;
                    let (accessor, part) = rest.split_once('.').ok_or_else(unknown)?;
                    let part = TemplatePart::parse(part).ok_or_else(unknown)?;
                    Ok(Self::Alias { accessor: accessor.to_owned(), part })
                }
            };
        }
        let (kind, rest) = match name.strip_prefix("identity.groups.") {
            Some(rest) => rest.split_once('.').ok_or_else(unknown)?,
            None => return Err(unknown()),
        };
        let (which, part) = rest.split_once('.').ok_or_else(unknown)?;
        let part = TemplatePart::parse(part).ok_or_else(unknown)?;
        let which = which.to_owned();
        match kind {
            "ids" => Ok(Self::GroupById { id: which, part }),
            "names" => Ok(Self::GroupByName { name: which, part }),
            _ => Err(unknown()),
        }
    }

    fn value(&self, subject: &TokenSubject, now: i64) -> Json {
        let ids = || subject.groups.iter().map(|group| group.id.clone());
        let names = || subject.groups.iter().map(|group| group.name.clone());
        match self {
            Self::EntityId => subject.id.as_str().into(),
            Self::EntityName => subject.name.as_str().into(),
            Self::EntityMetadata => object(&subject.metadata),
            Self::EntityMetadataKey(key) => text(&subject.metadata, key),
            Self::GroupIds => Json::strings(ids()),
            Self::GroupNames => Json::strings(names()),
            Self::Alias { accessor, part } => {
                let none = SubjectAlias::default();
                let found = subject.aliases.iter().find(|alias| alias.accessor == *accessor);
                let alias = found.unwrap_or(&none);
                part.of(&alias.id, &alias.name, &alias.metadata, &alias.custom_metadata)
            }
            Self::GroupById { id, part } => part.of_group(subject, |group| &group.id == id),
            Self::GroupByName { name, part } => part.of_group(subject, |group| &group.name == name),
            Self::Time(shift) => Json::Number(now.saturating_add(*shift).to_string().into()),
        }
    }
}

impl TemplatePart {
    fn parse(text: &str) -> Option<Self> {
        let key = |rest: &str| (!rest.is_empty()).then(|| rest.to_owned());
        match text {
            "id" => Some(Self::Id),
            "name" => Some(Self::Name),
            "metadata" => Some(Self::Metadata),
            "custom_metadata" => Some(Self::CustomMetadata),
            _ => match text.strip_prefix("metadata.") {
                Some(rest) => key(rest).map(Self::MetadataKey),
                None => key(text.strip_prefix("custom_metadata.")?).map(Self::CustomMetadataKey),
            },
        }
    }

    fn of(
        &self,
        id: &str,
        name: &str,
        metadata: &SubjectMetadata,
        custom: &SubjectMetadata,
    ) -> Json {
        match self {
            Self::Id => id.into(),
            Self::Name => name.into(),
            Self::Metadata => object(metadata),
            Self::MetadataKey(key) => text(metadata, key),
            Self::CustomMetadata => object(custom),
            Self::CustomMetadataKey(key) => text(custom, key),
        }
    }

    fn of_group(
        &self,
        subject: &TokenSubject,
        is_it: impl Fn(&crate::subject::SubjectGroup) -> bool,
    ) -> Json {
        let none = crate::subject::SubjectGroup::default();
        let group = subject.groups.iter().find(|group| is_it(group)).unwrap_or(&none);
        self.of(&group.id, &group.name, &group.metadata, &SubjectMetadata::new())
    }
}

fn object(metadata: &SubjectMetadata) -> Json {
    Json::Object(metadata.iter().map(|(key, value)| (key.clone(), value.as_str().into())).collect())
}

fn text(metadata: &SubjectMetadata, key: &str) -> Json {
    metadata.get(key).map_or("", String::as_str).into()
}

/// Seconds from now, of what follows `time.now`.
fn time(rest: &str) -> Result<i64, Error> {
    let invalid = || Error::invalid("error parsing template: invalid duration");
    let (sign, span) = match rest {
        "" => return Ok(0),
        rest => match (rest.strip_prefix(".plus."), rest.strip_prefix(".minus.")) {
            (Some(span), _) => (1, span),
            (_, Some(span)) => (-1, span),
            _ => return Err(Error::invalid("error parsing template: missing time operand")),
        },
    };
    let secs = Span::parse(span).ok_or_else(invalid)?.secs();
    if secs < 0 { Err(invalid()) } else { Ok(sign * secs) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ann() -> TokenSubject {
        let pairs = |pairs: &[(&str, &str)]| {
            pairs.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect()
        };
        TokenSubject {
            id: "e-1".to_owned(),
            name: "ann".to_owned(),
            metadata: pairs(&[("team", "red"), ("a.b", "dots")]),
            groups: vec![crate::subject::SubjectGroup {
                id: "g-1".to_owned(),
                name: "admins".to_owned(),
                metadata: pairs(&[("cost", "7")]),
            }],
            aliases: vec![SubjectAlias {
                accessor: "auth_userpass_1".to_owned(),
                id: "a-1".to_owned(),
                name: "ann@example.com".to_owned(),
                metadata: pairs(&[("ip", "::1")]),
                custom_metadata: pairs(&[("desk", "5")]),
            }],
        }
    }

    fn filled(template: &str) -> String {
        let filled = ClaimsTemplate::parse(template).unwrap().fill(&ann(), 1000);
        String::from_utf8(Json::Object(filled).to_text()).unwrap()
    }

    #[test]
    fn a_directive_stands_for_the_value_that_it_names() {
        for (directive, value) in [
            ("identity.entity.id", r#""e-1""#),
            ("identity.entity.name", r#""ann""#),
            ("identity.entity.metadata", r#"{"a.b":"dots","team":"red"}"#),
            ("identity.entity.metadata.team", r#""red""#),
            ("identity.entity.metadata.a.b", r#""dots""#),
            ("identity.entity.metadata.none", r#""""#),
            ("identity.entity.groups.names", r#"["admins"]"#),
            ("identity.entity.groups.ids", r#"["g-1"]"#),
            ("identity.entity.aliases.auth_userpass_1.name", r#""ann@example.com""#),
            ("identity.entity.aliases.auth_userpass_1.id", r#""a-1""#),
            ("identity.entity.aliases.auth_userpass_1.metadata", r#"{"ip":"::1"}"#),
            ("identity.entity.aliases.auth_userpass_1.metadata.ip", r#""::1""#),
            ("identity.entity.aliases.auth_userpass_1.custom_metadata.desk", r#""5""#),
            ("identity.entity.aliases.other.name", r#""""#),
            ("identity.entity.aliases.other.metadata", r"{}"),
            ("identity.groups.ids.g-1.name", r#""admins""#),
            ("identity.groups.names.admins.id", r#""g-1""#),
            ("identity.groups.names.admins.metadata.cost", r#""7""#),
            ("identity.groups.names.others.id", r#""""#),
            ("time.now", "1000"),
            (" time.now.plus.1h ", "4600"),
            ("time.now.minus.10s", "990"),
            ("time.now.plus.0s", "1000"),
            ("identity.entity.aliases.auth_userpass_1.custom_metadata", r#"{"desk":"5"}"#),
        ] {
            let template = format!(r#"{{"x": {{{{{directive}}}}} }}"#);
            assert_eq!(filled(&template), format!(r#"{{"x":{value}}}"#), "{directive}");
        }
    }

    #[test]
    fn directives_stand_at_any_depth_and_beside_each_other() {
        let template = r#"{"a": {"b": [{{identity.entity.id}}, {"c": {{time.now}} }]}, "d": true}"#;
        assert_eq!(filled(template), r#"{"a":{"b":["e-1",{"c":1000}]},"d":true}"#);
        assert_eq!(filled(""), "{}");
        assert_eq!(filled(" {} "), "{}");
    }

    #[test]
    fn what_is_no_template_is_refused_where_it_is_written() {
        for (template, why) in [
            ("{", "template JSON"),
            ("[]", "not an object"),
            ("{{identity.entity.id}}", "not an object"),
            (r#"{"a": "{{identity.entity.id}}"}"#, "template JSON"),
            (r#"{"a": x{{identity.entity.id}}}"#, "template JSON"),
            (r#"{ {{identity.entity.name}}: 1}"#, "the name of a member"),
            (r#"{"a": [{ {{identity.entity.name}}: 1}]}"#, "the name of a member"),
            (r#"{"a": {{identity.entity.id}"#, "unbalanced"),
            (r#"{"a": {{identity.entity.secret}} }"#, "no value could be found"),
            (r#"{"a": {{identity.entity.metadata.}} }"#, "no value could be found"),
            (r#"{"a": {{}} }"#, "no value could be found"),
            (r#"{"a": {{time.now.plus.x}} }"#, "invalid duration"),
            (r#"{"a": {{time.now.plus.-1s}} }"#, "invalid duration"),
            (r#"{"a": {{time.now.times.2}} }"#, "missing time operand"),
            (r#"{"a": 1, "a": 2}"#, "template JSON"),
        ] {
            let error = ClaimsTemplate::parse(template).unwrap_err().to_string();
            assert!(error.contains(why), "{template}: {error}");
        }
    }

    #[test]
    fn a_claim_of_the_servers_is_refused_in_every_spelling_that_json_has() {
        for name in claims::RESERVED {
            let escaped: String =
                name.chars().map(|c| format!("\\u{:04x}", u32::from(c))).collect();
            for spelled in [name.to_owned(), escaped] {
                let template = format!(r#"{{"{spelled}": 1}}"#);
                let error = ClaimsTemplate::parse(&template).unwrap_err().to_string();
                assert!(error.starts_with(&format!("top level key \"{name}\" not allowed.")));
            }
            // Below the top it is a claim like any other.
            assert!(ClaimsTemplate::parse(&format!(r#"{{"x": {{"{name}": 1}} }}"#)).is_ok());
        }
    }

    #[test]
    fn what_a_value_says_is_a_value() {
        let mut ann = ann();
        for name in ["\", \"sub\": \"root", "{{identity.entity.id}}", "\u{0}0\u{0}", "\\u0022}"] {
            ann.name = name.to_owned();
            let template = ClaimsTemplate::parse(r#"{"n": {{identity.entity.name}} }"#).unwrap();
            let expected = Map::from([("n".to_owned(), name.into())]);
            assert_eq!(template.fill(&ann, 0), expected);
        }
    }

    #[test]
    fn a_template_is_as_long_as_it_may() {
        let of = |bytes: usize| format!("{{{}}}", " ".repeat(bytes - 2));
        assert!(ClaimsTemplate::parse(&of(TEMPLATE_BYTES_MAX)).is_ok());
        let longer = ClaimsTemplate::parse(&of(TEMPLATE_BYTES_MAX + 1)).unwrap_err();
        assert!(longer.to_string().contains("longer than 65536 bytes"), "{longer}");
    }
}
