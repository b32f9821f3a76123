//! The layout of policies in HCL: what `policy fmt` makes of a text.
//!
//! Only space between words changes: two for each block around a line, one around `=` and after commas, signs of assignments that follow each
//! other below each other, no two empty lines. Comments and texts stay as they are.

/// A line of a policy, in its parts.
#[derive(Debug, Default, PartialEq, Eq)]
struct PolicyLine {
    /// What stands before a sign of assignment; empty where there is none.
    name: String,
    /// What stands behind it, or the whole line; without a comment.
    rest: String,
    comment: String,
    depth: usize,
    /// A line of a comment or a text of several lines: it is left as it is.
    is_raw: bool,
}

/// Where a line begins.
#[derive(Clone, Debug, PartialEq, Eq)]
enum LineStart {
    Code,
    /// In a comment of several lines.
    Comment,
    /// In a text of several lines, up to this word.
    Text(String),
}

/// The text in its layout, with a line break at its end.
pub(crate) fn format(text: &str) -> String {
    let (mut start, mut depth) = (LineStart::Code, 0_usize);
    let mut lines: Vec<PolicyLine> = Vec::new();
    for raw in text.lines() {
        if start != LineStart::Code {
            start = after_raw(start, raw);
            lines.push(PolicyLine { rest: raw.to_owned(), is_raw: true, ..PolicyLine::default() });
            continue;
        }
        let mut line = PolicyLine::default();
        let (change, closes) = read_code(raw.trim(), &mut line, &mut start);
        line.depth = depth.saturating_sub(closes);
        depth = depth.saturating_add_signed(change);
        let is_empty = |line: &PolicyLine| {
            !line.is_raw && line.rest.is_empty() && line.comment.is_empty() && line.name.is_empty()
        };
        let opens = lines.last().is_none_or(|before| before.rest.ends_with(['{', '[']));
        if is_empty(&line) && (opens || lines.last().is_some_and(is_empty)) {
            continue;
        }
        if line.rest.starts_with(['}', ']']) && lines.last().is_some_and(is_empty) {
            lines.pop();
        }
        lines.push(line);
    }
    write(&lines).trim_end().to_owned() + "\n"
}

/// Where the next line begins, after one inside a comment or a text.
fn after_raw(start: LineStart, line: &str) -> LineStart {
    match start {
        LineStart::Comment if line.contains("*/") => LineStart::Code,
        LineStart::Text(word) if line.trim() == word => LineStart::Code,
        inside => inside,
    }
}

/// Takes a line of code apart. How much deeper the next one is, and how many blocks this one closes before it opens any.
fn read_code(text: &str, line: &mut PolicyLine, start: &mut LineStart) -> (isize, usize) {
    let (mut change, mut lowest) = (0_isize, 0_isize);
    let mut code = String::new();
    let mut is_text = false;
    let mut rest = text.char_indices().peekable();
    while let Some((at, c)) = rest.next() {
        if is_text {
            code.push(c);
            match c {
                '\\' => code.extend(rest.next().map(|(_, escaped)| escaped)),
                '"' => is_text = false,
                _ => {}
            }
            continue;
        }
        let is_comment = c == '#' || text[at..].starts_with("//") || text[at..].starts_with("/*");
        if is_comment {
            line.comment = text[at..].to_owned();
            if text[at..].starts_with("/*") && !text[at..].contains("*/") {
                *start = LineStart::Comment;
            }
            break;
        }
        if let Some(word) = text[at..].strip_prefix("<<") {
            *start = LineStart::Text(word.trim_start_matches('-').trim().to_owned());
            code.push_str(&text[at..]);
            break;
        }
        match c {
            '"' => is_text = true,
            '{' | '[' => change += 1,
            '}' | ']' => {
                change -= 1;
                lowest = lowest.min(change);
            }
            _ => {}
        }
        spaced(&mut code, c, rest.peek().map(|(_, next)| *next));
    }
    let code = code.trim().to_owned();
    match assignment(&code) {
        Some((name, value)) => (line.name, line.rest) = (name.to_owned(), value.to_owned()),
        None => line.rest = code,
    }
    (change, lowest.unsigned_abs())
}

/// Appends a character of code with the space that belongs around it.
fn spaced(code: &mut String, c: char, next: Option<char>) {
    match c {
        c if c.is_whitespace() => {
            if !code.is_empty() && !code.ends_with([' ', '[']) {
                code.push(' ');
            }
        }
        ',' | ']' => {
            code.truncate(code.trim_end().len());
            code.push(c);
            if c == ',' && next.is_some() {
                code.push(' ');
            }
        }
        '=' | '{' | '}' => {
            if !code.is_empty() && !code.ends_with([' ', '[', '(']) {
                code.push(' ');
            }
            code.push(c);
            if next.is_some_and(|next| next != ',' && next != ']') {
                code.push(' ');
            }
        }
        c => code.push(c),
    }
}

/// The name and the value of an assignment.
fn assignment(code: &str) -> Option<(&str, &str)> {
    let (name, value) = code.split_once(" = ").or_else(|| code.split_once(" ="))?;
    let is_quoted = name.len() > 1 && name.starts_with('"') && name.ends_with('"');
    let is_name = match is_quoted {
        true => name.matches('"').count() == 2,
        false => name.chars().all(|c| c.is_ascii_alphanumeric() || "_-".contains(c)),
    };
    is_name.then(|| (name.trim(), value.trim()))
}

fn write(lines: &[PolicyLine]) -> String {
    let mut out = String::new();
    let mut at = 0;
    while at < lines.len() {
        // Assignments of one line that follow each other have their signs below each other.
        let first = &lines[at];
        let fits = |line: &&PolicyLine| {
            let is_whole = !line.rest.ends_with(['{', '[']) && !line.is_raw;
            !line.name.is_empty() && line.depth == first.depth && is_whole
        };
        let run = lines[at..].iter().take_while(fits).count().max(1);
        let width = lines[at..at + run].iter().map(|line| line.name.chars().count()).max();
        for line in &lines[at..at + run] {
            if line.is_raw {
                out.push_str(&line.rest);
                out.push('\n');
                continue;
            }
            let name = match line.name.is_empty() {
                true => String::new(),
                false => format!("{:<1$} = ", line.name, width.unwrap_or(0)),
            };
            let gap = if line.rest.is_empty() || line.comment.is_empty() { "" } else { " " };
            let text = format!("{name}{}{gap}{}", line.rest, line.comment);
            if !text.is_empty() {
                out.push_str(&"  ".repeat(line.depth));
            }
            out.push_str(&text);
            out.push('\n');
        }
        at += run;
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_space_changes_and_twice_is_once() {
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
     "update",
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
path "x" { capabilities = ["deny"] }
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
        assert_eq!(format(wanted), wanted);
        let bare = |text: &str| text.split_whitespace().collect::<String>();
        assert_eq!(bare(given), bare(wanted));
        assert!(kallisto_hcl::parse(wanted.as_bytes()).is_ok());
    }
}
