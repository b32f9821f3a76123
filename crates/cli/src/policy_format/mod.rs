//! The layout of policies in HCL: what `policy fmt` makes of a text.
//!
//! It is that of Vault's and OpenBao's `policy fmt`: blocks on lines of their own, two spaces for each around a line, one around `=` and after
//! commas, one element a line in lists that are longer than one, an empty line between blocks. Signs of assignments, and comments, of lines
//! that follow each other stand below each other. Words, texts and comments stay as they are, and every comment stays where it was:
//! theirs moves or joins some. Commas go where a list or a block is laid out by lines, and come behind the last element of such a list.

mod syntax;

use syntax::{LayoutBody, LayoutElement, LayoutItem, LayoutValue};

/// A line that is laid out.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct LaidLine {
    text: String,
    /// In a comment or a text of several lines, behind its first: it is not indented.
    is_raw: bool,
}

/// The text in its layout, with a line break at its end; `None` where it is not understood.
pub(crate) fn format(text: &str) -> Option<String> {
    let lines = rules(&syntax::read(text)?);
    let mut out = String::with_capacity(text.len());
    for line in lines {
        out.push_str(&line.text);
        out.push('\n');
    }
    Some(out)
}

/// Lines of a text of one or several: those behind the first stay as they are.
fn lines_of(text: &str) -> impl Iterator<Item = LaidLine> {
    text.split('\n')
        .enumerate()
        .map(|(at, line)| LaidLine { text: line.trim_end_matches('\r').to_owned(), is_raw: at > 0 })
}

fn push(lines: &mut Vec<LaidLine>, text: &str) {
    lines.extend(lines_of(text));
}

fn push_indented(lines: &mut Vec<LaidLine>, inner: impl IntoIterator<Item = LaidLine>) {
    lines.extend(inner.into_iter().map(|mut line| {
        if !line.is_raw && !line.text.is_empty() {
            line.text.insert_str(0, "  ");
        }
        line
    }));
}

/// An empty line, unless there is one or nothing before it.
fn push_gap(lines: &mut Vec<LaidLine>) {
    if lines.last().is_some_and(|last| !last.text.is_empty() || last.is_raw) {
        lines.push(LaidLine::default());
    }
}

fn push_comments<T>(lines: &mut Vec<LaidLine>, body: &LayoutBody<T>, before: usize) {
    let (is_last, groups) = (before == body.entries.len(), &body.comments);
    for group in groups.iter().filter(|group| group.before == before) {
        push_gap(lines);
        group.texts.iter().for_each(|text| push(lines, text));
        if !is_last {
            push_gap(lines);
        }
    }
}

/// What stands outside of all blocks.
fn rules(body: &LayoutBody<LayoutItem>) -> Vec<LaidLine> {
    let mut lines = Vec::new();
    for (at, item) in body.entries.iter().enumerate() {
        push_comments(&mut lines, body, at);
        let before = at.checked_sub(1).map(|before| &body.entries[before]);
        let follows = |before: &LayoutItem| {
            before.line + 1 == item.line && is_empty_block(before) && is_empty_block(item)
        };
        if !before.is_some_and(follows) {
            push_gap(&mut lines);
        }
        lines.extend(item_lines(item));
    }
    push_comments(&mut lines, body, body.entries.len());
    lines
}

fn is_empty_block(item: &LayoutItem) -> bool {
    let is_empty =
        matches!(&item.value, LayoutValue::Object(body) if *body == LayoutBody::default());
    is_empty && item.lead.is_empty() && !item.is_assigned
}

fn item_lines(item: &LayoutItem) -> Vec<LaidLine> {
    aligned_lines(item, value_lines(&item.value), item.keys.first().map_or(0, String::len), 0)
}

/// An item with its value laid out, whose first name, and whose value where a comment is behind it, take so many bytes.
fn aligned_lines(
    item: &LayoutItem,
    value: Vec<LaidLine>,
    key_bytes: usize,
    value_bytes: usize,
) -> Vec<LaidLine> {
    let mut lines = Vec::new();
    item.lead.iter().for_each(|text| push(&mut lines, text));
    let mut start = String::new();
    for (at, key) in item.keys.iter().enumerate() {
        let width = if at == 0 { key_bytes } else { 0 };
        start.push_str(&format!("{key}{:1$} ", "", width.saturating_sub(key.len())));
    }
    if item.is_assigned {
        start.push_str("= ");
    }
    let gap = value_bytes.saturating_sub(text_bytes(&value));
    let first = lines.len();
    lines.extend(value);
    lines[first].text.insert_str(0, &start);
    if let (Some(tail), Some(last)) = (&item.tail, lines.last_mut()) {
        last.text.push_str(&format!("{:1$} {tail}", "", gap));
    }
    lines
}

/// Bytes of lines, with the breaks between them.
fn text_bytes(lines: &[LaidLine]) -> usize {
    (lines.iter().map(|line| line.text.len() + 1).sum::<usize>()).saturating_sub(1)
}

fn value_lines(value: &LayoutValue) -> Vec<LaidLine> {
    match value {
        LayoutValue::Literal(text) => lines_of(text).collect(),
        LayoutValue::Object(body) => object_lines(body),
        LayoutValue::List { body, is_one_line } => {
            let is_simple = |element: &LayoutElement| {
                let is_literal = matches!(element.value, LayoutValue::Literal(_));
                let is_bare = element.lead.is_empty() && element.tail.is_none();
                is_literal && is_bare && (body.entries.len() == 1 || !element.value.is_heredoc())
            };
            match *is_one_line && body.comments.is_empty() && body.entries.iter().all(is_simple) {
                true => one_line_list(body),
                false => list_lines(body),
            }
        }
    }
}

fn object_lines(body: &LayoutBody<LayoutItem>) -> Vec<LaidLine> {
    if *body == LayoutBody::default() {
        return lines_of("{}").collect();
    }
    let (mut inner, mut at) = (Vec::new(), 0);
    // Each once: an object in an object would be laid out several times for each around it.
    let mut values: Vec<_> = body.entries.iter().map(|item| value_lines(&item.value)).collect();
    while at < body.entries.len() {
        push_comments(&mut inner, body, at);
        push_gap(&mut inner);
        let end = at + run_of(body, &values, at).max(1);
        let (run, values) = (&body.entries[at..end], &mut values[at..end]);
        let key_bytes = run.iter().filter_map(|item| item.keys.first()).map(String::len).max();
        let value_bytes = values.iter().map(|value| text_bytes(value)).max();
        let (key_bytes, value_bytes) = (key_bytes.unwrap_or(0), value_bytes.unwrap_or(0));
        for (item, value) in run.iter().zip(values) {
            inner.extend(aligned_lines(item, std::mem::take(value), key_bytes, value_bytes));
        }
        at = end;
    }
    push_comments(&mut inner, body, at);
    let mut lines: Vec<LaidLine> = lines_of("{").collect();
    push_indented(&mut lines, inner);
    push(&mut lines, "}");
    lines
}

/// How many items from this one on, with their values laid out, stand on lines that follow each other, and take one each.
fn run_of(body: &LayoutBody<LayoutItem>, values: &[Vec<LaidLine>], from: usize) -> usize {
    let items = &body.entries;
    let is_cut = |at: usize| at > from && body.comments.iter().any(|group| group.before == at);
    let mut at = from;
    let lines = |at: usize| {
        let lead = items[at].lead.iter().map(|text| lines_of(text).count()).sum::<usize>();
        lead + values[at].len()
    };
    while at < items.len() && !is_cut(at) && lines(at) <= 2 {
        let line = items[at].line;
        let is_followed = items.get(at + 1).is_some_and(|next| next.line == line + 1);
        let follows = at > 0 && items[at - 1].line + 1 == line;
        at += usize::from(is_followed || follows);
        if !is_followed {
            break;
        }
    }
    at - from
}

fn one_line_list(body: &LayoutBody<LayoutElement>) -> Vec<LaidLine> {
    let mut lines: Vec<LaidLine> = lines_of("[").collect();
    for (at, element) in body.entries.iter().enumerate() {
        let mut value = value_lines(&element.value).into_iter();
        let (Some(last), Some(first)) = (lines.last_mut(), value.next()) else { continue };
        last.text.push_str(if at > 0 { ", " } else { "" });
        last.text.push_str(&first.text);
        lines.extend(value);
    }
    match (lines.len(), lines.last_mut()) {
        (1, Some(last)) => last.text.push(']'),
        // The word that ends a text of several lines stands alone.
        _ => push(&mut lines, "]"),
    }
    lines
}

fn list_lines(body: &LayoutBody<LayoutElement>) -> Vec<LaidLine> {
    let width = |element: &LayoutElement| match &element.value {
        LayoutValue::Literal(text) => text.len(),
        LayoutValue::List { .. } | LayoutValue::Object(_) => 0,
    };
    let longest = body.entries.iter().map(width).max().unwrap_or(0);
    let mut inner = Vec::new();
    for (at, element) in body.entries.iter().enumerate() {
        push_comments(&mut inner, body, at);
        if !element.lead.is_empty() {
            push_gap(&mut inner);
        }
        element.lead.iter().for_each(|text| push(&mut inner, text));
        let value = value_lines(&element.value);
        let gap = longest.saturating_sub(text_bytes(&value));
        inner.extend(value);
        if element.value.is_heredoc() {
            push(&mut inner, "");
        }
        if let Some(last) = inner.last_mut() {
            last.text.push(',');
            if let Some(tail) = &element.tail {
                last.text.push_str(&format!("{:1$} {tail}", "", gap));
            }
        }
        if !element.lead.is_empty() && at + 1 < body.entries.len() {
            push_gap(&mut inner);
        }
    }
    push_comments(&mut inner, body, body.entries.len());
    let mut lines: Vec<LaidLine> = lines_of("[").collect();
    push_indented(&mut lines, inner);
    push(&mut lines, "]");
    lines
}

#[cfg(test)]
mod tests {
    /// Laid out, after it was seen that it stays so, and says the same.
    fn format(text: &str) -> String {
        let made = super::format(text).unwrap();
        assert_eq!(super::format(&made).as_ref(), Some(&made));
        let bare = |text: &str| text.replace(|c: char| c.is_whitespace() || c == ',', "");
        assert_eq!(bare(text), bare(&made));
        assert!(kallisto_hcl::parse(made.as_bytes()).is_ok());
        made
    }

    #[test]
    fn space_changes_and_twice_is_once() {
        let given = r#"

# Read all.
path   "secret/data/a  b/*"{
capabilities=["read","list"]   # both


      min_wrapping_ttl   ="1s"
   allowed_parameters={
 "ttl"=[ "1h" , "2h" ]
"*"=[]
      }

}
path "x" { capabilities = [ "deny" ] }
/* a
     comment = of two lines */
path "y" {
  capabilities = [
"read",
     "update"
]
  note = <<EOT
   stays  =here
EOT
}


"#;
        let wanted = r#"# Read all.
path "secret/data/a  b/*" {
  capabilities = ["read", "list"] # both

  min_wrapping_ttl = "1s"

  allowed_parameters = {
    "ttl" = ["1h", "2h"]
    "*"   = []
  }
}

path "x" {
  capabilities = ["deny"]
}

/* a
     comment = of two lines */
path "y" {
  capabilities = [
    "read",
    "update",
  ]

  note = <<EOT
   stays  =here
EOT
}
"#;
        assert_eq!(format(given), wanted);
    }

    /// What the `policy fmt` of OpenBao makes of the same, as far as it keeps comments where they are.
    #[test]
    fn rules_on_one_line_are_laid_out_by_lines() {
        for (given, wanted) in [
            (
                "path \"a\" {capabilities=[\"read\"]}",
                "path \"a\" {\n  capabilities = [\"read\"]\n}\n",
            ),
            (
                "path \"a\" { a = [] b = {} } path \"b\" {}",
                "path \"a\" {\n  a = []\n\n  b = {}\n}\n\npath \"b\" {}\n",
            ),
            ("path \"a\" {}\npath \"b\" { }\n", "path \"a\" {}\npath \"b\" {}\n"),
            ("path \"a\" {}\n\npath \"b\" {}\n", "path \"a\" {}\n\npath \"b\" {}\n"),
            (
                "path \"a\" { a = { \"x\" = [\"1\"], \"y\" = [] } } # end",
                "path \"a\" {\n  a = {\n    \"x\" = [\"1\"]\n\n    \"y\" = []\n  }\n} # end\n",
            ),
            (
                "path \"a\" {\n a = [\n\"x\", # x\n \"longer\" # y\n]\n}",
                "path \"a\" {\n  a = [\n    \"x\",      # x\n    \"longer\", # y\n  ]\n}\n",
            ),
            (
                "path \"a\" {\n a = 1 # one\n bcd = \"two\" # two\n}",
                "path \"a\" {\n  a   = 1     # one\n  bcd = \"two\" # two\n}\n",
            ),
        ] {
            assert_eq!(format(given), wanted, "{given}");
        }
    }

    #[test]
    fn what_is_not_understood_has_no_layout() {
        for given in [
            "path \"a",
            "a = <<EOT\nx\n",
            "a",
            "a = }",
            "a = [1 2]",
            "{}",
            "/* a",
            "a = \n# why\n1",
        ] {
            assert_eq!(super::format(given), None, "{given}");
        }
        assert_eq!(super::format(&format!("a = {}", "[".repeat(100_000))), None);
        assert_eq!(super::format("").as_deref(), Some(""));
    }

    #[test]
    fn objects_in_objects_are_laid_out_once_each() {
        let deep = kallisto_hcl::limits::DEPTH_MAX - 2;
        let text = format!("path \"a\" {{ {} {} }}", "a = {".repeat(deep), "}".repeat(deep));
        let made = format(&text);
        assert_eq!(made.lines().count(), 2 * deep + 1);
    }
}
