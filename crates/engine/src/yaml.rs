//! Documents of Kubernetes as people write them: JSON, or the part of YAML 1.2 that says the same.
//!
//! ```text
//! block     mapping | sequence               by the indentation of its first line, in spaces
//! mapping   (key ":" (value | block))+
//! sequence  ("-" (value | block))+
//! value     plain word | "text" | 'text' | "[" values "]" | "{" pairs "}"     on one line
//! ```
//!
//! The engine and the login method of Kubernetes read what roles say by it. Anchors, aliases, tags, texts of several lines and several documents
//! are refused: a role that is read otherwise than it was meant gives away more than it should.

use kallisto_api::json::{self, Json, Map};

/// Longest document, in bytes.
const DOCUMENT_BYTES_MAX: usize = 64 << 10;
/// How deep values stand in values.
const DEPTH_MAX: usize = 16;

/// What a document says; `None` for what is none that is understood.
pub fn parse(text: &str) -> Option<Json> {
    if text.len() > DOCUMENT_BYTES_MAX {
        return None;
    }
    if text.trim_start().starts_with('{') {
        return json::parse_object(text.as_bytes()).ok().map(Json::Object);
    }
    let lines: Option<Vec<YamlLine<'_>>> =
        text.lines().enumerate().filter_map(|(at, line)| YamlLine::read(at == 0, line)).collect();
    let mut block = YamlBlock { lines: lines?, at: 0 };
    let first = block.lines.first()?.indent;
    let value = block.value(first, DEPTH_MAX)?;
    (block.at == block.lines.len()).then_some(value)
}

/// A line that says something.
#[derive(Clone, Copy)]
struct YamlLine<'t> {
    indent: usize,
    text: &'t str,
}

impl<'t> YamlLine<'t> {
    /// A line; nothing for one that is empty, and `Some(None)` for one that is not understood.
    fn read(is_first: bool, line: &'t str) -> Option<Option<Self>> {
        let text = without_comment(line);
        let bare = text.trim_start_matches(' ');
        let indent = text.len() - bare.len();
        if bare.is_empty() || (is_first && bare == "---") {
            return None;
        }
        Some(
            (!bare.starts_with(['\t', '%']) && bare != "---")
                .then_some(YamlLine { indent, text: bare }),
        )
    }
}

/// A line without its comment, and without spaces at its end.
fn without_comment(line: &str) -> &str {
    let mut quote = None;
    let mut before = ' ';
    for (at, c) in line.char_indices() {
        match quote {
            Some(open) if c == open => quote = None,
            Some(_) => {}
            None if matches!(c, '"' | '\'') && !before.is_alphanumeric() => quote = Some(c),
            None if c == '#' && before.is_whitespace() => return line[..at].trim_end(),
            None => {}
        }
        before = c;
    }
    line.trim_end()
}

struct YamlBlock<'t> {
    lines: Vec<YamlLine<'t>>,
    at: usize,
}

impl<'t> YamlBlock<'t> {
    /// The block at this indentation.
    fn value(&mut self, indent: usize, depth: usize) -> Option<Json> {
        let deeper = depth.checked_sub(1)?;
        let first = self.lines.get(self.at)?;
        match item(first.text) {
            Some(_) => self.sequence(indent, deeper),
            None => self.mapping(indent, deeper),
        }
    }

    fn sequence(&mut self, indent: usize, depth: usize) -> Option<Json> {
        let mut items = Vec::new();
        while let Some(line) = self.line_at(indent)? {
            let Some(rest) = item(line.text) else { break };
            if rest.is_empty() {
                self.at += 1;
                items.push(self.below(indent, depth)?);
            } else if item(rest).is_some() || pair(rest).is_some() {
                // What stands behind the dash begins a block of its own there.
                let inside = indent + (line.text.len() - rest.len());
                self.lines[self.at] = YamlLine { indent: inside, text: rest };
                items.push(self.value(inside, depth)?);
            } else {
                self.at += 1;
                items.push(scalar(rest, depth)?);
            }
        }
        Some(Json::Array(items))
    }

    fn mapping(&mut self, indent: usize, depth: usize) -> Option<Json> {
        let mut map = Map::new();
        while let Some(line) = self.line_at(indent)? {
            let Some((key, rest)) = pair(line.text) else {
                // A sequence at the indentation of its key ends with the next key, not with anything else.
                return None;
            };
            self.at += 1;
            let is_sequence = self
                .lines
                .get(self.at)
                .is_some_and(|next| next.indent == indent && item(next.text).is_some());
            let value = match rest {
                "" if is_sequence => self.sequence(indent, depth)?,
                "" => self.below(indent, depth)?,
                rest => scalar(rest, depth)?,
            };
            if map.insert(key, value).is_some() {
                return None;
            }
        }
        Some(Json::Object(map))
    }

    /// The block further inside; nothing where there is none.
    fn below(&mut self, indent: usize, depth: usize) -> Option<Json> {
        match self.lines.get(self.at) {
            Some(next) if next.indent > indent => {
                let inside = next.indent;
                self.value(inside, depth)
            }
            _ => Some(Json::Null),
        }
    }

    /// The next line, if the block goes on there; `None` for one that stands between two blocks.
    fn line_at(&self, indent: usize) -> Option<Option<YamlLine<'t>>> {
        match self.lines.get(self.at) {
            Some(line) if line.indent == indent => Some(Some(*line)),
            Some(line) if line.indent > indent => None,
            _ => Some(None),
        }
    }
}

/// What stands behind the dash of an item.
fn item(text: &str) -> Option<&str> {
    if text == "-" { Some("") } else { text.strip_prefix("- ").map(str::trim_start) }
}

/// A key, and what stands behind its colon.
fn pair(text: &str) -> Option<(String, &str)> {
    let (key, rest) = match text.chars().next()? {
        quote @ ('"' | '\'') => {
            let end = 1 + text[1..].find(quote)?;
            (&text[..=end], text[end + 1..].trim_start().strip_prefix(':')?)
        }
        _ => match text.find(": ") {
            Some(at) => (&text[..at], &text[at + 1..]),
            None => (text.strip_suffix(':')?, ""),
        },
    };
    if !rest.is_empty() && !rest.starts_with(' ') {
        return None;
    }
    match scalar(key.trim_end(), 1)? {
        Json::String(key) => Some((key, rest.trim_start())),
        Json::Number(key) => Some((key.into(), rest.trim_start())),
        _ => None,
    }
}

/// A value on one line.
fn scalar(text: &str, depth: usize) -> Option<Json> {
    let mut flow = YamlFlow { rest: text };
    let value = flow.value(depth, false)?;
    flow.rest.trim().is_empty().then_some(value)
}

struct YamlFlow<'t> {
    rest: &'t str,
}

impl YamlFlow<'_> {
    fn space(&mut self) {
        self.rest = self.rest.trim_start();
    }

    fn take(&mut self, c: char) -> bool {
        self.space();
        let rest = self.rest.strip_prefix(c);
        self.rest = rest.unwrap_or(self.rest);
        rest.is_some()
    }

    /// A value; one inside brackets ends at a comma or a bracket.
    fn value(&mut self, depth: usize, is_inside: bool) -> Option<Json> {
        let deeper = depth.checked_sub(1)?;
        self.space();
        match self.rest.chars().next()? {
            '[' => self.list(deeper),
            '{' => self.pairs(deeper),
            '"' | '\'' => self.quoted().map(Json::String),
            _ => self.plain(is_inside),
        }
    }

    fn list(&mut self, depth: usize) -> Option<Json> {
        self.take('[').then_some(())?;
        let mut items = Vec::new();
        while !self.take(']') {
            items.push(self.value(depth, true)?);
            if !self.take(',') {
                return self.take(']').then_some(Json::Array(items));
            }
        }
        Some(Json::Array(items))
    }

    fn pairs(&mut self, depth: usize) -> Option<Json> {
        self.take('{').then_some(())?;
        let mut map = Map::new();
        while !self.take('}') {
            let Json::String(key) = self.value(1, true)? else { return None };
            self.take(':').then_some(())?;
            if map.insert(key, self.value(depth, true)?).is_some() {
                return None;
            }
            if !self.take(',') {
                return self.take('}').then_some(Json::Object(map));
            }
        }
        Some(Json::Object(map))
    }

    fn quoted(&mut self) -> Option<String> {
        let quote = self.rest.chars().next()?;
        let mut end = None;
        let mut chars = self.rest.char_indices().skip(1).peekable();
        while let Some((at, c)) = chars.next() {
            if c == '\\' && quote == '"' {
                chars.next();
            } else if c == quote {
                if quote == '\'' && chars.next_if(|(_, next)| *next == '\'').is_some() {
                    continue;
                }
                end = Some(at);
                break;
            }
        }
        let (text, rest) = self.rest.split_at(end? + 1);
        self.rest = rest;
        match quote {
            '"' => match json::parse(text.as_bytes()).ok()? {
                Json::String(text) => Some(text),
                _ => None,
            },
            _ => Some(text[1..text.len() - 1].replace("''", "'")),
        }
    }

    fn plain(&mut self, is_inside: bool) -> Option<Json> {
        let ends = |c: char| is_inside && matches!(c, ',' | ']' | '}' | '[' | '{' | ':');
        let end = self.rest.find(ends).unwrap_or(self.rest.len());
        let (word, rest) = self.rest.split_at(end);
        self.rest = rest;
        let word = word.trim();
        let is_plain = !word
            .starts_with(['&', '*', '!', '|', '>', '%', '@', '`', '?', '"', '\'', '#'])
            && !word.contains(": ")
            && !word.contains(" #")
            && !word.ends_with(':');
        if word.is_empty() || !is_plain {
            return None;
        }
        Some(match word {
            "true" | "True" | "TRUE" => Json::Bool(true),
            "false" | "False" | "FALSE" => Json::Bool(false),
            "null" | "Null" | "NULL" | "~" => Json::Null,
            _ => match word.parse::<i64>() {
                // What begins with a zero or a plus is no number of JSON.
                Ok(number) if number.to_string() == word => Json::Number(word.into()),
                _ => Json::String(word.to_owned()),
            },
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn said(text: &str) -> Option<String> {
        parse(text).map(|value| String::from_utf8(value.to_text()).unwrap())
    }

    #[test]
    fn what_people_write_as_yaml_says_what_its_json_says() {
        let json = r#"{"rules":[{"apiGroups":[""],"resources":["pods","pods/log"],"verbs":["list"]},{"nonResourceURLs":["/healthz/*"],"verbs":["get"]}]}"#;
        for yaml in [
            json,
            "rules:\n- apiGroups: [\"\"]\n  resources: [pods, \"pods/log\"]\n  verbs:\n  - list\n- nonResourceURLs: ['/healthz/*']\n  verbs: [get]\n",
            "---\n# what\nrules:\n  - apiGroups:\n      - \"\"   # core\n    resources:\n      - pods\n      - pods/log\n    verbs: [\"list\"]\n\n  -\n    nonResourceURLs: [/healthz/*,]\n    verbs: [get]",
            "rules: [{apiGroups: [''], resources: [pods, pods/log], verbs: [list]}, {nonResourceURLs: ['/healthz/*'], verbs: [get]}]",
        ] {
            assert_eq!(said(yaml).as_deref(), Some(json), "{yaml}");
        }
        let selector = "matchLabels:\n  \"k8s.io/env\": 'it''s'\n  a.b/c: d\nmatchExpressions:\n- {key: x, operator: In, values: [a, 1]}";
        let expected = r#"{"matchExpressions":[{"key":"x","operator":"In","values":["a",1]}],"matchLabels":{"a.b/c":"d","k8s.io/env":"it's"}}"#;
        assert_eq!(said(selector).as_deref(), Some(expected));
    }

    #[test]
    fn what_is_not_understood_is_no_document() {
        for bad in [
            "",
            "rules",
            "rules: &a []",
            "rules: *a",
            "rules: !!seq []",
            "rules: |\n  text",
            "a: b: c",
            "a: b\na: c",
            "a: b\n  c: d",
            "a:\n    b: c\n  d: e",
            "\ta: b",
            "a: [b",
            "a: {b: c",
            "a: \"b",
            "a: b\n---\nc: d",
            "{\"a\":",
            "a: [b] c",
            "- a\nb: c",
        ] {
            assert_eq!(said(bad), None, "{bad:?}");
        }
        assert_eq!(said(&format!("a: {}{}", "[".repeat(40), "]".repeat(40))), None);
        let deep: String = (0..40).map(|n| format!("{}a:\n", " ".repeat(n))).collect();
        assert_eq!(said(&deep), None);
        assert_eq!(said(&format!("a: {}", "b".repeat(DOCUMENT_BYTES_MAX))), None);
    }
}
