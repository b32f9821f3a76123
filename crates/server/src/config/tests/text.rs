//! Texts that no key takes, at every key there is.

use super::reference::{EVERY_STANZA, asked, read_in_a_pod};
use super::{MINIMUM, read, read_with, refusal};

/// Keys that hold no text of their own, or one that is checked otherwise: stanzas of names that nobody knows beforehand, and of a
/// request what it sends and two that are one of a few words.
const NO_TEXT: [(&str, &str); 6] = [
    ("audit \"file\" \"a\"", "options"),
    ("tracing \"otlp\"", "headers"),
    ("tracing \"otlp\"", "resource_attributes"),
    ("request \"b\"", "data"),
    ("request \"b\"", "operation"),
    ("request \"b\"", "allow_failure"),
];

/// `text` with one more line at the end of each stanza with this title, or of everything: one at a time.
fn with_line(text: &str, title: &str, line: &str) -> Vec<String> {
    if title.is_empty() {
        return vec![format!("{text}\n{line}\n")];
    }
    let begins = text.match_indices(title).map(|(at, _)| at + title.len());
    let begins = begins.filter(|at| text[*at..].starts_with(" {"));
    let longer = begins.map(|begin| {
        let mut depth = 0;
        let end = text[begin..].char_indices().find(|(_, c)| {
            depth += i32::from(*c == '{') - i32::from(*c == '}');
            depth == 0 && *c == '}'
        });
        let (before, after) = text.split_at(begin + end.expect("the stanza ends").0);
        format!("{before}\n{line}\n{after}")
    });
    longer.collect()
}

#[test]
fn no_key_takes_a_nul_character() {
    for text in EVERY_STANZA {
        read_in_a_pod(text).unwrap_or_else(|error| panic!("{error}"));
    }
    let asked = asked();
    let is_stanza = |key: &str| {
        asked.keys().any(|title| title == key || title.starts_with(&format!("{key} \"")))
    };
    let mut refused = 0;
    for (title, keys) in &asked {
        for key in keys {
            let no_text = NO_TEXT.contains(&(title.as_str(), *key));
            if no_text || *key == "backend" || is_stanza(key) {
                continue;
            }
            let line = format!("{key} = \"/a\\u0000b\"");
            let texts = EVERY_STANZA.iter().flat_map(|text| with_line(text, title, &line));
            let mut said = texts.map(|text| match read_in_a_pod(&text) {
                Ok(_) => format!("{text} was taken"),
                Err(error) => error.to_string(),
            });
            let wanted = format!(": {key}: holds a NUL character");
            let named =
                |line: &str| line.starts_with("VAULT_LOCAL_CONFIG:") && line.ends_with(&wanted);
            assert!(said.any(|error| error.lines().any(named)), "{key} of {title:?}");
            refused += 1;
        }
    }
    assert!(refused > 100, "{refused} keys");
}

#[test]
fn no_label_and_no_entry_of_a_list_takes_a_nul_character() {
    for (text, wanted) in [
        ("audit \"file\" \"a\\u0000b\" {\n}", "3: a label holds a NUL character"),
        ("audit \"fi\\u0000le\" \"a\" {\n}", "3: a label holds a NUL character"),
        ("listener \"tcp\\u0000\" {\n}", "3: a label holds a NUL character"),
        (
            "audit_directories = [\"/a\",\n\"/b\\u0000\"]",
            "4: audit_directories: holds a NUL character",
        ),
        (
            "audit \"file\" \"a\" {\noptions { file_path = \"/var/log/a\\u0000b\" }\n}",
            "4: file_path: holds a NUL character",
        ),
    ] {
        let error = refusal(text);
        assert!(error.contains(&format!("VAULT_LOCAL_CONFIG:{wanted}")), "{text}: {error}");
    }
}

#[test]
fn a_server_has_a_name_that_can_be_shown() {
    let raft = |line: &str| {
        format!(
            "storage \"raft\" {{\npath = \"/d\"\n{line}\n}}\nlistener \"tcp\" {{ tls_disable = 1 }}"
        )
    };
    for good in ["node-0", "a.example:8201", "10.0.0.1:8201", "Zürich 2"] {
        read(&raft(&format!("node_id = \"{good}\"")));
    }
    let long = "x".repeat(256);
    for (bad, wanted) in [
        ("", "is empty"),
        ("a/../../b", "is no name of a server"),
        (" a", "is no name of a server"),
        ("a\\nb", "holds a control character"),
        ("a\\u0000", "holds a NUL character"),
        (long.as_str(), "is longer than 255 bytes"),
    ] {
        let error = read_with(&raft(&format!("node_id = \"{bad}\"")), &[]).unwrap_err();
        assert!(error.starts_with(&format!("VAULT_LOCAL_CONFIG:3: node_id: {wanted}")), "{error}");
    }
    let error = read_with(&raft(""), &[("VAULT_RAFT_NODE_ID", "a/b")]).unwrap_err();
    assert!(error.starts_with("VAULT_RAFT_NODE_ID: is no name"), "{error}");
    let error = read_with(&format!("{MINIMUM}cluster_name = \"a\\nb\""), &[]).unwrap_err();
    assert!(error.starts_with("VAULT_LOCAL_CONFIG:3: cluster_name: holds a control"), "{error}");
    read(&format!("{MINIMUM}cluster_name = \"eu / one\""));
}

#[test]
fn two_audit_devices_do_not_write_one_file_and_none_takes_an_option_that_would_be_ignored() {
    let device = |name: &str, options: &str| {
        format!("audit \"file\" \"{name}\" {{\noptions {{ {options} }}\n}}\n")
    };
    let file = |name: &str| device(name, "file_path = \"/var/log/same.log\"");
    let error = refusal(&format!("{}{}", file("a"), file("b")));
    assert!(error.contains("another audit device writes this file already"), "{error}");
    let error = refusal(&device("a", "file_path = \"/a\"\nexclude = \"[]\""));
    assert!(error.contains("the option exclude is not available"), "{error}");
    let aside = device("b", "file_path = \"stdout\"");
    read(&format!("{MINIMUM}{}{aside}{}", file("a"), aside.replace("\"b\"", "\"c\"")));
}
