//! Patterns of routes.
//!
//! ```text
//! mounts                    that path
//! roles/{name}              one segment, not empty
//! mounts/{path..}/tune      all that is left but for what follows, not empty, slashes and all
//! ```
//!
//! At most one `{name..}` stands in a pattern, and only fixed text follows it.

/// Whether `path` is of this pattern.
pub fn matches(pattern: &str, path: &str) -> bool {
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

/// Whether a pattern is one parameter of open length.
pub fn is_any_path(pattern: &str) -> bool {
    pattern.starts_with('{') && pattern.find("..}") == Some(pattern.len() - "..}".len())
}

/// Whether `path` is what stands before the parameter of open length that a pattern ends with: the root of what the parameter names.
pub fn is_root(pattern: &str, path: &str) -> bool {
    let Some(open) = pattern.strip_suffix("..}") else { return false };
    open.rfind('{').is_some_and(|at| &open[..at] == path)
}

/// What stands before the first slash of a pattern or a path.
pub fn first_segment(text: &str) -> &str {
    split(text).0
}

/// Bytes of a pattern that stand for themselves.
pub fn fixed_bytes(pattern: &str) -> usize {
    pattern.split('/').filter(|segment| !segment.starts_with('{')).map(str::len).sum()
}

/// The names of a pattern's parameters, in order.
pub fn parameters(pattern: &'static str) -> impl Iterator<Item = &'static str> {
    pattern.split('/').filter_map(|segment| {
        let name = segment.strip_prefix('{')?.strip_suffix('}')?;
        Some(name.trim_end_matches('.'))
    })
}

/// The pattern as OpenAPI writes it, where all parameters look alike.
pub fn template(pattern: &str) -> String {
    pattern.replace("..}", "}")
}

/// What a path has in the places of a pattern's parameters.
#[derive(Clone, Copy, Debug)]
pub struct Params<'p> {
    pattern: &'static str,
    path: &'p str,
}

impl<'p> Params<'p> {
    /// The parameters of a path that is of this pattern.
    pub const fn new(pattern: &'static str, path: &'p str) -> Self {
        Self { pattern, path }
    }

    /// The parameter of this name; empty if the pattern has none.
    pub fn get(&self, name: &str) -> &'p str {
        let (mut pattern, mut path) = (self.pattern, self.path);
        // Every turn takes one segment off both, so this ends with the shorter one.
        loop {
            let (head, pattern_left) = split(pattern);
            let (segment, path_left) = split(path);
            let parameter = head.strip_prefix('{').and_then(|head| head.strip_suffix('}'));
            match parameter.map(|parameter| (parameter, parameter.strip_suffix(".."))) {
                Some((_, Some(rest))) if rest == name => {
                    return path.strip_suffix(&pattern[head.len()..]).unwrap_or_default();
                }
                Some((parameter, None)) if parameter == name => return segment,
                _ => {}
            }
            match (pattern_left, path_left) {
                (Some(next_pattern), Some(next_path)) => {
                    (pattern, path) = (next_pattern, next_path)
                }
                _ => return "",
            }
        }
    }
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
    fn the_root_of_a_pattern_stands_before_its_last_parameter() {
        for (pattern, path, is_it) in [
            ("{path..}", "", true),
            ("data/{path..}", "data/", true),
            ("data/{path..}", "data", false),
            ("data/{path..}", "data/a", false),
            ("roles/{name}", "roles/", false),
            ("mounts/{path..}/tune", "mounts/", false),
            ("mounts", "mounts", false),
        ] {
            assert_eq!(is_root(pattern, path), is_it, "{pattern} {path}");
        }
    }

    #[test]
    fn parameters_have_names() {
        let names: Vec<_> = parameters("a/{x}/b/{rest..}/tune").collect();
        assert_eq!(names, ["x", "rest"]);
        assert_eq!(template("a/{x}/{rest..}/tune"), "a/{x}/{rest}/tune");
        assert_eq!(fixed_bytes("a/{x}/tune"), 5);
    }

    #[test]
    fn a_path_has_the_parameters_of_its_pattern() {
        for (pattern, path, name, value) in [
            ("keys/{name}", "keys/a", "name", "a"),
            ("keys/{name}", "keys/a", "other", ""),
            ("a/{x}/b/{y}", "a/1/b/2", "y", "2"),
            ("mounts/{path..}/tune", "mounts/a/b/tune", "path", "a/b"),
            ("{path..}", "any/thing/", "path", "any/thing/"),
            ("keys", "keys", "name", ""),
        ] {
            assert!(matches(pattern, path));
            assert_eq!(Params::new(pattern, path).get(name), value, "{pattern} {path}");
        }
    }
}
