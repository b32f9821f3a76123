//! What both languages mean, what they refuse and where, and that nothing makes reading run away.

use crate::limits::{BYTES_MAX, DEPTH_MAX, VALUES_MAX};
use crate::*;

fn body(text: &str) -> BlockBody {
    parse(text.as_bytes()).unwrap_or_else(|error| panic!("{error} in {text}"))
}

fn refusal(text: &str) -> String {
    match parse(text.as_bytes()) {
        Ok(body) => panic!("{text} was read as {body:?}"),
        Err(error) => error.to_string(),
    }
}

/// The tree without positions, as text: `path["a"]{x=["1"]}`.
fn print(body: &BlockBody) -> String {
    let item = |item: &TreeItem| {
        let labels: String = item.labels.iter().map(|label| format!("[{}]", label.text)).collect();
        format!("{}{labels}={}", item.key.text, print_value(&item.value))
    };
    body.items.iter().map(item).collect::<Vec<_>>().join(";")
}

fn print_value(value: &HclValue) -> String {
    match &value.kind {
        ValueKind::Null => "null".to_owned(),
        ValueKind::Bool(value) => value.to_string(),
        ValueKind::Number(text) => text.clone(),
        ValueKind::Text(text) => format!("{text:?}"),
        ValueKind::List(values) => {
            format!("[{}]", values.iter().map(print_value).collect::<Vec<_>>().join(","))
        }
        ValueKind::Object(body) => format!("{{{}}}", print(body)),
    }
}

#[test]
fn hcl_reads_as_its_authors_mean_it() {
    for (text, tree) in [
        ("", ""),
        ("# only\n// comments\n/* here\n */", ""),
        ("a = 1", "a=1"),
        ("a=1,b=2", "a=1;b=2"),
        ("a=1 b=2", "a=1;b=2"),
        ("\"a b\" = true", "a b=true"),
        ("a =\n  \"x\"", "a=\"x\""),
        (
            "path \"s/*\" { capabilities = [\"read\", \"list\",] }",
            "path[s/*]={capabilities=[\"read\",\"list\"]}",
        ),
        ("path \"s\"\n{\n}\n", "path[s]={}"),
        ("path s { policy = \"read\" }", "path[s]={policy=\"read\"}"),
        ("\"path\" \"s\" { \"policy\" = \"read\" }", "path[s]={policy=\"read\"}"),
        ("path = { \"s\" = { a = 1 } }", "path={s={a=1}}"),
        (
            "p { \"*\" = [] \"a\" = [1, 1.5, -2e3, 0x1F, true, \"q\", [], {}] }",
            "p={*=[];a=[1,1.5,-2e3,0x1F,true,\"q\",[],{}]}",
        ),
        ("plugin \"kms\" \"aws\" {}", "plugin[kms][aws]={}"),
        ("a = 1 # b = 2\nc = 3 // d\ne /* f */ = /* g */ 4", "a=1;c=3;e=4"),
        ("a = \"x # no // comment /* at all */\"", "a=\"x # no // comment /* at all */\""),
        ("a = \"${env.x} %{y} {{z}}\"", "a=\"${env.x} %{y} {{z}}\""),
        (r#"a = "\"\\\n\t\x41\u00e9\U0001F600""#, "a=\"\\\"\\\\\\n\\tAé😀\""),
        ("\u{feff}a = 1\r\nb = 2\r\n", "a=1;b=2"),
        ("a = 1\na = 2", "a=1;a=2"),
        ("a-b.c_d = 1", "a-b.c_d=1"),
        ("a = []", "a=[]"),
    ] {
        assert_eq!(print(&body(text)), tree, "{text}");
    }
}

#[test]
fn heredocs_keep_their_lines() {
    for (text, value) in [
        ("a = <<EOF\none\n two\nEOF\n", "one\n two\n"),
        ("a = <<EOF\nEOF", ""),
        ("a = <<-EOF\n    one\n      two\n    EOF\n", "one\n  two\n"),
        ("a = <<-EOF\n  one\n    EOF\n", "  one\n"),
        ("a = <<EOF\n  EOFX\n  EOF\nb = 1", "  EOFX\n"),
    ] {
        let body = body(text);
        assert_eq!(body.items[0].value.as_text(), Some(value), "{text}");
    }
    assert_eq!(refusal("a = <<EOF\none\n"), "At 1:5: a heredoc without its end");
    assert_eq!(
        refusal("a = << EOF\nEOF"),
        "At 1:5: a heredoc needs a mark, alone on the rest of its line"
    );
    assert_eq!(refusal("a = <EOF\nEOF"), "At 1:5: expected a value");
}

#[test]
fn json_is_the_json_of_its_standard() {
    for (text, tree) in [
        ("{}", ""),
        (" \n{\"a\":1}\n ", "a=1"),
        (
            "{\"path\":{\"s/*\":{\"capabilities\":[\"read\"]}}}",
            "path={s/*={capabilities=[\"read\"]}}",
        ),
        ("{\"a\":null,\"b\":[true,false,-0.5E+3]}", "a=null;b=[true,false,-0.5E+3]"),
        (r#"{"a":"\"\\\/\b\f\n\r\té😀"}"#, "a=\"\\\"\\\\/\\u{8}\\u{c}\\n\\r\\té😀\""),
        (r#"{"a":"\u00e9\ud83d\ude00"}"#, "a=\"é😀\""),
    ] {
        assert_eq!(print(&body(text)), tree, "{text}");
    }
    for text in [
        "{",
        "{]",
        "{\"a\"}",
        "{\"a\":}",
        "{\"a\":1,}",
        "{\"a\":[1,]}",
        "{a:1}",
        "{} {}",
        "{}x",
        "{\"a\":01}",
        "{\"a\":1.}",
        "{\"a\":.5}",
        "{\"a\":+1}",
        "{\"a\":1e}",
        "{\"a\":0x1}",
        "{\"a\":nul}",
        "{\"a\":\"\t\"}",
        "{\"a\":\"\\x41\"}",
        r#"{"a":"\ud800"}"#,
        r#"{"a":"\ud800\u0041"}"#,
        r#"{"a":"\udc00"}"#,
        "{\"a\":1} # no",
    ] {
        assert!(parse(text.as_bytes()).is_err(), "{text}");
    }
}

#[test]
fn errors_say_where_and_never_what_was_there() {
    for (text, error) in [
        ("a", "At 1:2: expected '=' or '{' after a key"),
        ("a = ", "At 1:5: expected a value"),
        ("a = bare", "At 1:5: expected a value"),
        ("a = null", "At 1:5: expected a value"),
        ("a = 010", "At 1:5: not a number"),
        ("a = 1x", "At 1:5: not a number"),
        ("a = 0x", "At 1:5: not a number"),
        ("a = [1 2]", "At 1:8: expected ',' or ']' in a list"),
        ("a = [,]", "At 1:6: expected a value"),
        ("a = [1", "At 1:7: expected ',' or ']' in a list"),
        ("a {\n b = 1\n", "At 3:1: expected a key or '}'"),
        ("a \"b\" = 1", "At 1:7: expected '{' after a block's labels"),
        ("}", "At 1:1: expected a key or the end of the file"),
        ("é = 1\n= 2", "At 2:1: expected a key or the end of the file"),
        ("a = \"x", "At 1:7: a string without its end"),
        ("a = \"x\ny\"", "At 1:7: a string ends on the line it starts on"),
        ("a = \"\\q\"", "At 1:6: an unknown escape in a string"),
        ("a = \"\\xff\"", "At 1:6: an unknown escape in a string"),
        ("a = \"\0\"", "At 1:6: a control character in a string"),
        ("a = 1\n /* b", "At 2:2: a comment without its end"),
        ("a 1 2 3", "At 1:3: expected '=' or '{' after a key"),
        ("a b c d e f g h i j {}", "At 1:19: too many labels before a block"),
    ] {
        assert_eq!(refusal(text), error, "{text}");
    }
    assert_eq!(parse(b"a = 1\n\xff").unwrap_err().to_string(), "At 2:1: this is not UTF-8");
    let canary = "hvs.CANARY";
    for text in [format!("a = {canary}"), canary.to_owned(), format!("a = \"{canary}")] {
        assert!(!refusal(&text).contains(canary));
    }
}

#[test]
fn limits_hold_at_their_edges() {
    let nested = |depth: usize| format!("a = {}{}", "[".repeat(depth), "]".repeat(depth));
    assert!(parse(nested(DEPTH_MAX).as_bytes()).is_ok());
    assert!(refusal(&nested(DEPTH_MAX + 1)).contains("nested too deeply"));
    let blocks = |depth: usize| format!("{}{}", "a {".repeat(depth), "}".repeat(depth));
    assert!(parse(blocks(DEPTH_MAX).as_bytes()).is_ok());
    assert!(refusal(&blocks(100_000)).contains("nested too deeply"));
    assert!(refusal(&format!("{{\"a\":{}", "[".repeat(100_000))).contains("nested too deeply"));
    let long = "#".repeat(BYTES_MAX);
    assert!(parse(long.as_bytes()).is_ok());
    assert!(refusal(&format!("{long}#")).contains("too long"));
    let many = |count: usize| format!("a = [{}]", "1,".repeat(count));
    assert!(parse(many(VALUES_MAX - 1).as_bytes()).is_ok());
    assert!(refusal(&many(VALUES_MAX)).contains("too many values"));
}

#[test]
fn blocks_are_found_however_they_are_written() {
    for text in [
        "path \"a\" { x = 1 }\npath \"b\" { x = 2 }",
        "path = { \"a\" = { x = 1 }, \"b\" = { x = 2 } }",
        "path { a { x = 1 } b { x = 2 } }",
        "{\"path\":{\"a\":{\"x\":1},\"b\":{\"x\":2}}}",
        "{\"path\":[{\"a\":{\"x\":1}},{\"b\":[{\"x\":2}]}]}",
        "{\"path\":{\"a\":{\"x\":1}},\"path\":{\"b\":{\"x\":2}}}",
    ] {
        let body = body(text);
        let blocks = body.labelled("path").unwrap();
        let found =
            blocks.iter().map(|(key, body)| (key.text.as_str(), body.items[0].value.as_u64()));
        assert_eq!(found.collect::<Vec<_>>(), [("a", Some(1)), ("b", Some(2))], "{text}");
    }
    for (text, error) in [
        ("path \"a\" \"b\" {}", "At 1:10: this block takes one label"),
        ("path = 5", "At 1:8: expected a block"),
        ("path { x = 1 }", "At 1:12: expected a block"),
        ("path = [1]", "At 1:9: expected a block"),
    ] {
        assert_eq!(body(text).labelled("path").unwrap_err().to_string(), error, "{text}");
    }
    assert_eq!(body("t {}\nt {}").unlabelled("t").unwrap().len(), 2);
    assert_eq!(body("{\"t\":[{},{}]}").unlabelled("t").unwrap().len(), 2);
    assert_eq!(
        body("t \"a\" {}").unlabelled("t").unwrap_err().to_string(),
        "At 1:3: this block takes no label"
    );
}

/// Every prefix of a file, and the file with any one byte changed, is read or refused, in bounds.
#[test]
fn cut_and_flipped_files_are_read_or_refused() {
    let text = "# c\npath \"s/*\" {\n  capabilities = [\"read\", \"list\",] /* x */\n  p { \"*\" = \
                [] }\n  q = <<-E\n   a\n   E\n  n = -1.5e3\n}\n";
    for end in 0..=text.len() {
        let _ = parse(&text.as_bytes()[..end]);
    }
    for at in 0..text.len() {
        for flip in 1..=255_u8 {
            let mut bytes = text.as_bytes().to_vec();
            bytes[at] ^= flip;
            if let Err(error) = parse(&bytes) {
                assert!(error.at.line <= 11, "{error}");
            }
        }
    }
}

#[test]
fn two_labels_are_read_however_they_are_written() {
    let forms = [
        "audit \"file\" \"a\" { x = 1 }",
        "audit = { file = { a = { x = 1 } } }",
        "audit \"file\" { a { x = 1 } }",
        r#"{"audit":[{"file":{"a":{"x":1}}}]}"#,
        r#"{"audit":{"file":[{"a":[{"x":1}]}]}}"#,
    ];
    for text in forms {
        let body = body(text);
        let found = body.twice_labelled("audit").unwrap();
        let [(kind, path, inside)] = found[..] else { panic!("{text}") };
        assert_eq!((kind.text.as_str(), path.text.as_str()), ("file", "a"), "{text}");
        assert!(inside.first("x").is_some(), "{text}");
    }
    for text in ["audit \"a\" { x = 1 }", "audit = 1", "audit \"a\" \"b\" \"c\" { }"] {
        assert!(body(text).twice_labelled("audit").is_err(), "{text}");
    }
}
