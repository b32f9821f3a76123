//! Patterns of the route table.
//!
//! ```text
//! mounts                    that path
//! roles/{name}              one segment, not empty
//! mounts/{path..}/tune      all that is left but for what follows, not empty, slashes and all
//! ```
//!
//! At most one `{name..}` stands in a pattern, and only fixed text follows it.

/// Whether `path` is of this pattern.
pub(super) fn matches(pattern: &str, path: &str) -> bool {
    let (mut pattern, mut path) = (pattern, path);
    // Every turn takes one segment off both, so this ends with the shorter one.
    loop {
        let (head, pattern_left) = split(pattern);
        if head.ends_with("..}") {
            let suffix = &pattern[head.len()..];
            return path.strip_suffix(suffix).is_some_and(|rest| !rest.is_empty());
        }
        let (segment, path_left) = split(path);
        let fits = if head.starts_with('{') { !segment.is_empty() } else { head == segment };
        match (fits, pattern_left, path_left) {
            (true, Some(next_pattern), Some(next_path)) => {
                (pattern, path) = (next_pattern, next_path);
            }
            (fits, None, None) => return fits,
            _ => return false,
        }
    }
}

/// Bytes of a pattern that stand for themselves.
pub(super) fn fixed_bytes(pattern: &str) -> usize {
    pattern.split('/').filter(|segment| !segment.starts_with('{')).map(str::len).sum()
}

/// The names of a pattern's parameters, in order.
pub(super) fn parameters(pattern: &'static str) -> impl Iterator<Item = &'static str> {
    pattern.split('/').filter_map(|segment| {
        let name = segment.strip_prefix('{')?.strip_suffix('}')?;
        Some(name.trim_end_matches('.'))
    })
}

/// The pattern as OpenAPI writes it, where all parameters look alike.
pub(super) fn template(pattern: &str) -> String {
    pattern.replace("..}", "}")
}

fn split(text: &str) -> (&str, Option<&str>) {
    match text.split_once('/') {
        Some((head, rest)) => (head, Some(rest)),
        None => (text, None),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_match_what_they_say() {
        for (pattern, path, fits) in [
            ("mounts", "mounts", true),
            ("mounts", "mounts/", false),
            ("mounts", "mount", false),
            ("roles/{name}", "roles/a", true),
            ("roles/{name}", "roles/", false),
            ("roles/{name}", "roles/a/b", false),
            ("mounts/{path..}", "mounts/a/b/", true),
            ("mounts/{path..}", "mounts/", false),
            ("mounts/{path..}", "mounts", false),
            ("mounts/{path..}/tune", "mounts/a/b/tune", true),
            ("mounts/{path..}/tune", "mounts/tune", false),
            ("mounts/{path..}/tune", "mounts//tune", false),
            ("a/{x}/b/{y}", "a/1/b/2", true),
            ("a/{x}/b/{y}", "a/1/c/2", false),
            ("{path..}", "any/thing", true),
            ("{path..}", "", false),
        ] {
            assert_eq!(matches(pattern, path), fits, "{pattern} {path}");
        }
    }

    #[test]
    fn parameters_have_names() {
        let names: Vec<_> = parameters("a/{x}/b/{rest..}/tune").collect();
        assert_eq!(names, ["x", "rest"]);
        assert_eq!(template("a/{x}/{rest..}/tune"), "a/{x}/{rest}/tune");
        assert_eq!(fixed_bytes("a/{x}/tune"), 5);
    }
}
