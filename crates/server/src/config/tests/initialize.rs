//! Stanzas of `initialize`, in both forms, and what is said about the wrong ones.

use kallisto_core::Operation;

use super::*;

const KEY: &str = "0000000000000000000000000000000000000000000000000000000000000001";

fn with_seal(text: &str) -> String {
    format!(
        "{MINIMUM}seal \"static\" {{\n current_key_id = \"a\"\n current_key = \"{KEY}\"\n}}\n{text}"
    )
}

#[test]
fn requests_are_read_in_their_order_in_both_forms() {
    let hcl = with_seal(
        "initialize \"a\" {\n request \"one\" {\n operation = \"update\"\n path = \"sys/audit/stdout\"\n data = {\n type = \"file\"\n options = { file_path = \"stdout\", log_raw = true }\n }\n }\n request \"two\" {\n operation = \"read\"\n path = \"x\"\n }\n}\n",
    );
    let json = format!(
        r#"{{"storage":{{"inmem":{{}}}},"listener":{{"tcp":{{"tls_disable":1}}}},"seal":{{"static":{{"current_key_id":"a","current_key":"{KEY}"}}}},
        "initialize":[{{"a":{{"request":[{{"one":{{"operation":"update","path":"sys/audit/stdout","data":{{"type":"file","options":{{"file_path":"stdout","log_raw":true}}}}}}}},{{"two":{{"operation":"read","path":"x"}}}}]}}}}]}}"#
    );
    for text in [hcl, json] {
        let requests = read(&text).initialize;
        let names: Vec<_> = requests.iter().map(|one| one.name.request.as_str()).collect();
        assert_eq!(names, ["one", "two"]);
        let Some(InitValue::Map(members)) = &requests[0].data else { panic!("no data") };
        assert!(members.iter().any(|(name, value)| {
            name == "options" && matches!(value, InitValue::Map(inner) if inner.len() == 2)
        }));
    }
    assert!(OPERATIONS.contains(&("create", Operation::Update)));
}

#[test]
fn what_cannot_run_is_refused_with_its_place_and_no_value() {
    let request = |inner: &str| format!("initialize \"a\" {{\nrequest \"b\" {{\n{inner}\n}}\n}}");
    let source = |inner: &str| {
        request(&format!("operation = \"update\"\npath = \"p\"\ndata = {{ k = {{ {inner} }} }}"))
    };
    for (text, said) in [
        ("initialize \"a\" {}".to_owned(), "has no request"),
        (
            "initialize \"1\" {\nrequest \"b\" { operation = \"read\", path = \"p\" }\n}".into(),
            "a name of its own",
        ),
        (request("operation = \"read\""), "needs an operation and a path"),
        (request("operation = \"sudo\"\npath = \"p\""), "expected one of: create, update"),
        (request("operation = \"read\"\npath = 7"), "expected text"),
        (source("eval_source = \"env\""), "needs eval_type"),
        (
            source("eval_source = \"env\", eval_type = \"canary\", env_var = \"E\""),
            "expected an eval_type of",
        ),
        (source("eval_source = \"cel\", eval_type = \"string\""), "expected an eval_source of"),
        (
            source(
                "eval_source = \"env\", eval_type = \"string\", env_var = \"E\", path = \"canary\"",
            ),
            "has no path",
        ),
        (
            source(
                "eval_source = \"response\", eval_type = \"string\", initialize_name = \"a\", request_name = \"b\", field_selector = \"data\"",
            ),
            "no request of that name comes before",
        ),
    ] {
        let refused = read_with(&with_seal(&text), &[]).unwrap_err();
        assert!(refused.contains(said) && !refused.contains("canary"), "{text}: {refused}");
        assert!(refused.starts_with("VAULT_LOCAL_CONFIG:"), "{refused}");
    }
    let good = request("operation = \"read\"\npath = \"p\"");
    let refused = read_with(&format!("{MINIMUM}{good}"), &[]).unwrap_err();
    assert!(refused.contains("a seal that opens by itself"), "{refused}");
    // A seal that is refused might have been one that does.
    for key in ["env://UNSET", &"00".repeat(32)] {
        let text = with_seal(&good).replace(KEY, key);
        let refused = read_with(&text, &[]).unwrap_err();
        assert!(refused.contains("current_key") && refused.lines().count() == 1, "{refused}");
    }
    let joins = "storage \"raft\" {\n path = \"/d\"\n retry_join { leader_api_addr = \"https://a.example:8200\" }\n}\n";
    let text = with_seal(&good).replace("storage \"inmem\" {}\n", joins);
    let refused = read_with(&format!("{text}\ncluster_addr = \"https://a.example:8201\""), &[]);
    assert!(refused.as_ref().unwrap_err().contains("joins nobody"), "{refused:?}");
}
