//! Values: what they are of, and what they have to be. The rest is tried on a server, in `crates/kallisto/tests/server/self_init.rs`.

use super::*;

fn told(form: EvaluatedForm, text: &str) -> Result<String, String> {
    shaped_text(form, text).map(|value| String::from_utf8(value.to_text()).unwrap())
}

#[test]
fn a_value_is_what_its_eval_type_says_or_refused_without_being_shown() {
    use EvaluatedForm::{Any, Map, Number, Text, Texts, Truth, Whole};
    for (form, text, expected) in [
        (Text, "7", "\"7\""),
        (Any, "a b", "\"a b\""),
        (Whole, " 7\n", "7"),
        (Number, "1.5", "1.5"),
        (Truth, "true", "true"),
        (Texts, "[\"a\",\"b\"]", "[\"a\",\"b\"]"),
        (Map, "{\"a\":1}", "{\"a\":1}"),
    ] {
        assert_eq!(told(form, text).as_deref(), Ok(expected), "{form:?}");
    }
    for (form, text) in [
        (Whole, "1.5"),
        (Whole, "canary"),
        (Truth, "1"),
        (Texts, "canary"),
        (Texts, "[1]"),
        (Map, "[\"canary\"]"),
        (Number, "true"),
    ] {
        let why = told(form, text).unwrap_err();
        assert!(why.contains("eval_type") && !why.contains("canary"), "{why}");
    }
    assert_eq!(shaped(Text, Json::Bool(true)), Ok("true".into()));
    assert!(shaped(Text, Json::Null).is_err());
}

#[test]
fn a_field_of_an_earlier_request_is_found_by_its_names() {
    let name = RequestName { block: "a".into(), request: "b".into() };
    let answer = Json::object([("auth", Json::object([("client_token", "t".into())]))]);
    let history = InitHistory::from([(name.clone(), (Json::Null, answer))]);
    let of = |selector: &[&str]| {
        let selector = selector.iter().map(|&field| field.to_owned()).collect();
        let (form, name) = (EvaluatedForm::Text, name.clone());
        Prepared::Earlier { form, name, selector, is_answer: true }.take(&history)
    };
    assert_eq!(of(&["auth", "client_token"]), Ok("t".into()));
    assert_eq!(of(&["auth", "other"]), Err("there is no auth.other".to_owned()));
    assert!(of(&["auth"]).is_err());
}
