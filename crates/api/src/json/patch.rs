//! JSON merge patch (RFC 7396, section 2).

use super::{Json, Map};

/// Merges `patch` into `target`: `null` removes, objects merge, all else replaces. Recursion is
/// bounded by the depth of a parsed document.
pub fn merge_patch(target: &mut Map, patch: Map) {
    for (key, change) in patch {
        match change {
            Json::Null => {
                target.remove(&key);
            }
            Json::Object(inner) => {
                let slot = target.entry(key).or_insert(Json::Null);
                if !matches!(slot, Json::Object(_)) {
                    *slot = Json::Object(Map::new());
                }
                if let Json::Object(map) = slot {
                    merge_patch(map, inner);
                }
            }
            other => {
                target.insert(key, other);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::parse_object;
    use super::*;

    /// The examples of RFC 7396, appendix A, whose two sides are objects.
    #[test]
    fn rfc_7396_examples() {
        for (target, patch, expected) in [
            (r#"{"a":"b"}"#, r#"{"a":"c"}"#, r#"{"a":"c"}"#),
            (r#"{"a":"b"}"#, r#"{"b":"c"}"#, r#"{"a":"b","b":"c"}"#),
            (r#"{"a":"b"}"#, r#"{"a":null}"#, "{}"),
            (r#"{"a":"b","b":"c"}"#, r#"{"a":null}"#, r#"{"b":"c"}"#),
            (r#"{"a":["b"]}"#, r#"{"a":"c"}"#, r#"{"a":"c"}"#),
            (r#"{"a":"c"}"#, r#"{"a":["b"]}"#, r#"{"a":["b"]}"#),
            (r#"{"a":{"b":"c"}}"#, r#"{"a":{"b":"d","c":null}}"#, r#"{"a":{"b":"d"}}"#),
            (r#"{"a":[{"b":"c"}]}"#, r#"{"a":[1]}"#, r#"{"a":[1]}"#),
            (r#"{"e":null}"#, r#"{"a":1}"#, r#"{"a":1,"e":null}"#),
            ("{}", r#"{"a":{"bb":{"ccc":null}}}"#, r#"{"a":{"bb":{}}}"#),
        ] {
            let mut map = parse_object(target.as_bytes()).unwrap();
            merge_patch(&mut map, parse_object(patch.as_bytes()).unwrap());
            assert_eq!(Json::Object(map).to_text(), expected.as_bytes(), "{target} + {patch}");
        }
    }
}
