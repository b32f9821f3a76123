//! What a token keeps, and who sees it.

use kallisto_api::{Denial, Error, Response};
use kallisto_auth::Operation::{Delete, List, Read, Update};
use kallisto_engine::CallerToken;

use crate::testing::TestMount;

fn token(id: u8) -> CallerToken {
    CallerToken { id: [id; 32], is_stored: true, ..CallerToken::default() }
}

fn mount() -> TestMount {
    let mount = TestMount::new(&super::ENGINE);
    mount.ask_by(token(1));
    mount
}

#[test]
fn a_token_sees_its_own_entries_and_no_others() {
    let mount = mount();
    mount.ask(0, Update, "a/b", r#"{"k":"v"}"#).unwrap();
    mount.ask(0, Update, "c", r#"{"k":1}"#).unwrap();
    assert_eq!(TestMount::text(&mount.ask(0, Read, "a/b", "").unwrap(), "k"), "v");
    assert_eq!(TestMount::text(&mount.ask(0, List, "", "").unwrap(), "keys"), r#"["a/","c"]"#);
    assert_eq!(TestMount::text(&mount.ask(0, List, "a/", "").unwrap(), "keys"), r#"["b"]"#);
    mount.ask_by(token(2));
    for path in ["a/b", "c"] {
        assert_eq!(mount.ask(0, Read, path, ""), Err(Error::NotFound));
        mount.ask(0, Delete, path, "").unwrap();
    }
    assert_eq!(mount.ask(0, List, "", ""), Err(Error::NotFound));
    mount.ask_by(token(1));
    mount.ask(0, Delete, "a/b", "").unwrap();
    assert_eq!(TestMount::text(&mount.ask(0, List, "", "").unwrap(), "keys"), r#"["c"]"#);
}

#[test]
fn a_token_that_ended_meanwhile_leaves_nothing_behind() {
    let mount = mount();
    mount.end_caller();
    let refused = mount.ask(0, Update, "a", r#"{"k":"v"}"#);
    assert_eq!(refused, Err(Error::Denied(Denial::BadToken)));
    assert!(mount.names().is_empty());
}

#[test]
fn batch_tokens_and_those_from_above_have_none_and_folders_and_nothing_are_no_entries() {
    let mount = mount();
    for (path, body, text) in [
        ("", r#"{"k":"v"}"#, "cannot write to a path ending in '/'"),
        ("a/", r#"{"k":"v"}"#, "cannot write to a path ending in '/'"),
        ("a", "{}", "missing data fields"),
    ] {
        assert_eq!(mount.ask(0, Update, path, body), Err(Error::invalid(text)), "{path}");
    }
    mount.ask_by(CallerToken { is_stored: false, ..token(1) });
    let text = "cubbyhole operations are only supported by 'service' type tokens";
    for operation in [Read, List, Update, Delete] {
        assert_eq!(mount.ask(0, operation, "a", r#"{"k":"v"}"#), Err(Error::invalid(text)));
    }
    mount.ask_by(CallerToken { is_from_above: true, ..token(1) });
    let text = "a token has its cubbyhole in its own namespace only";
    assert_eq!(mount.ask(0, Read, "a", ""), Err(Error::invalid(text)));
}

#[test]
fn a_wrapping_token_reads_its_answer_in_the_old_way_with_a_warning() {
    let mount = mount();
    let name = format!("{}/response", "01".repeat(32));
    mount.put(&name, b"\x01{\"request_id\":\"1\"}");
    mount.ask_by(CallerToken { is_wrapping: true, ..token(1) });
    let answer = mount.answer(0, Read, "response", b"").unwrap();
    let Response::Logical(logical) = answer else { panic!("{answer:?}") };
    let text = String::from_utf8(logical.data.clone()).unwrap();
    assert_eq!(text, r#"{"response":"{\"request_id\":\"1\"}"}"#);
    assert!(logical.warnings[0].starts_with("Reading 'cubbyhole/response' is deprecated"));
}
