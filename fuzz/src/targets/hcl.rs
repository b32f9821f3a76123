//! Any bytes are a tree within bounds or an error that says where; a tree written out is read as the
//! same tree; and what begins as JSON is JSON to this reader if it is to the other one.

use kallisto_core::Json;
use kallisto_core::json::ParseError;
use kallisto_hcl::limits::{BYTES_MAX, DEPTH_MAX, LABELS_MAX, VALUES_MAX};
use kallisto_hcl::{BlockBody, Error, HclValue, TreeItem, ValueKind, parse};

/// What both languages are made of, and what breaks readers of them.
pub(crate) const WORDS: &[&[u8]] = &[
    b"path \"secret/*\" {",
    b"capabilities = [\"read\"]",
    b"policy = \"write\"",
    b"{",
    b"}",
    b"[",
    b"]",
    b"=",
    b",",
    b":",
    b"\"",
    b"\\",
    b"\"a\"",
    b"\n",
    b"\r\n",
    b"# c\n",
    b"// c\n",
    b"/*",
    b"*/",
    b"<<EOF\n",
    b"<<-EOF\n",
    b"EOF\n",
    b"true",
    b"null",
    b"-1.5e3",
    b"0x1F",
    b"010",
    b"${",
    b"{{identity.entity.id}}",
    b"\\u00e9",
    b"\\ud83d\\ude00",
    b"\\U0001F600",
    b"\xc3\xa9",
    b"\xff",
    b"\xef\xbb\xbf",
    b"\"a\":",
    b"{\"a\":{\"a\":",
    b"[[[[[[[[",
];

/// The target.
pub(crate) fn run(bytes: &[u8]) {
    match parse(bytes) {
        Ok(body) => check_tree(&body),
        Err(error) => check_error(&error, bytes),
    }
    check_json(bytes);
}

fn check_tree(body: &BlockBody) {
    let mut values = 0;
    measure(body, 0, &mut values);
    let mut text = String::new();
    write_body(body, &mut text);
    if text.len() <= BYTES_MAX {
        let mut again = parse(text.as_bytes()).expect("a written tree can be read");
        let mut body = body.clone();
        forget_places(&mut again);
        forget_places(&mut body);
        assert!(again == body, "a written tree is read as another one");
    }
}

fn measure(body: &BlockBody, depth: usize, values: &mut usize) {
    assert!(depth <= DEPTH_MAX);
    for item in &body.items {
        assert!(item.labels.len() <= LABELS_MAX);
        measure_value(&item.value, depth, values);
    }
}

fn measure_value(value: &HclValue, depth: usize, values: &mut usize) {
    *values += 1;
    assert!(*values <= VALUES_MAX);
    match &value.kind {
        ValueKind::List(items) => {
            assert!(depth < DEPTH_MAX);
            items.iter().for_each(|value| measure_value(value, depth + 1, values));
        }
        ValueKind::Object(body) => measure(body, depth + 1, values),
        ValueKind::Null | ValueKind::Bool(_) | ValueKind::Number(_) | ValueKind::Text(_) => {}
    }
}

/// Writes a tree as HCL. A `null`, which only JSON has, is written as a word.
fn write_body(body: &BlockBody, text: &mut String) {
    for item in &body.items {
        write_text(&item.key.text, text);
        for label in &item.labels {
            text.push(' ');
            write_text(&label.text, text);
        }
        if !item.is_block {
            text.push_str(" = ");
        }
        write_value(&item.value, text);
        text.push('\n');
    }
}

fn write_value(value: &HclValue, text: &mut String) {
    match &value.kind {
        ValueKind::Null => text.push_str("\"null\""),
        ValueKind::Bool(value) => text.push_str(if *value { "true" } else { "false" }),
        ValueKind::Number(number) => text.push_str(number),
        ValueKind::Text(value) => write_text(value, text),
        ValueKind::List(values) => {
            text.push('[');
            for value in values {
                write_value(value, text);
                text.push(',');
            }
            text.push(']');
        }
        ValueKind::Object(body) => {
            text.push_str("{\n");
            write_body(body, text);
            text.push('}');
        }
    }
}

fn write_text(value: &str, text: &mut String) {
    text.push('"');
    for next in value.chars() {
        match next {
            '"' | '\\' => text.extend(['\\', next]),
            next if next.is_control() => text.push_str(&format!("\\U{:08x}", u32::from(next))),
            next => text.push(next),
        }
    }
    text.push('"');
}

/// Makes trees of different texts comparable.
fn forget_places(body: &mut BlockBody) {
    let nowhere = kallisto_hcl::TextPosition { line: 0, column: 0 };
    for TreeItem { key, labels, value, .. } in &mut body.items {
        key.at = nowhere;
        labels.iter_mut().for_each(|label| label.at = nowhere);
        forget_value(value);
    }
}

fn forget_value(value: &mut HclValue) {
    value.at = kallisto_hcl::TextPosition { line: 0, column: 0 };
    match &mut value.kind {
        ValueKind::Null => value.kind = ValueKind::Text("null".to_owned()),
        ValueKind::List(values) => values.iter_mut().for_each(forget_value),
        ValueKind::Object(body) => forget_places(body),
        ValueKind::Bool(_) | ValueKind::Number(_) | ValueKind::Text(_) => {}
    }
}

/// An error points into the file and repeats nothing of it.
fn check_error(error: &Error, bytes: &[u8]) {
    let lines = bytes.iter().filter(|&&byte| byte == b'\n').count() + 1;
    assert!(error.at.line as usize <= lines);
    assert!(error.at.column as usize <= bytes.len() + 1);
    assert!(!error.what.is_empty());
}

/// The two readers of JSON agree about everything within the limits of both.
fn check_json(bytes: &[u8]) {
    let starts = bytes.trim_ascii_start().first() == Some(&b'{');
    let is_plain = std::str::from_utf8(bytes).is_ok_and(|text| text.trim_start().starts_with('{'));
    if !starts || !is_plain {
        return;
    }
    match (parse(bytes), kallisto_core::json::parse(bytes)) {
        (
            Ok(_),
            Ok(Json::Object(_))
            | Err(ParseError::TooMany | ParseError::TooDeep(_) | ParseError::Duplicate(..)),
        ) => {}
        (Err(error), Ok(_)) => {
            assert!(matches!(error.what, "nested too deeply" | "too many values"), "{error}");
        }
        (Ok(_), other) => panic!("JSON to one reader only: {:?}", other.err()),
        (Err(_), Err(_)) => {}
    }
}
