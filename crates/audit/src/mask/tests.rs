//! What is masked, and what is left out, of JSON of every shape.

use super::*;

fn masker() -> Masker {
    Masker::new(&[7; SALT_BYTES], Secrecy::Masked)
}

fn masked(text: &str, exempt: &[&str], elision: Elision) -> Result<String, MalformedJson> {
    let mut out = Vec::new();
    masker().json(text.as_bytes(), exempt, elision, &mut out)?;
    Ok(String::from_utf8(out).unwrap())
}

fn h(value: &str) -> String {
    format!("\"{}\"", masker().hash(value))
}

#[test]
fn the_hash_is_hmac_sha256_as_published() {
    // RFC 4231, test case 2, has a key of 4 bytes; HMAC pads short keys with zeros.
    let mut salt = [0; SALT_BYTES];
    salt[..4].copy_from_slice(b"Jefe");
    let masker = Masker::new(&salt, Secrecy::Masked);
    assert_eq!(
        masker.hash("what do ya want for nothing?"),
        "hmac-sha256:5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843"
    );
}

#[test]
fn a_mask_that_is_remembered_is_the_same() {
    let masker = masker();
    for _ in 0..2 {
        for value in ["", "hvs.one", "hvs.two", "root"] {
            let mut out = Vec::new();
            masker.push_again(value, &mut out);
            assert_eq!(String::from_utf8(out).unwrap(), h(value));
        }
    }
    let raw = Masker::new(&[7; SALT_BYTES], Secrecy::Raw);
    let mut out = Vec::new();
    raw.push_again("hvs.one", &mut out);
    assert_eq!(out, b"\"hvs.one\"");
}

#[test]
fn a_value_has_its_own_mask_however_often_it_comes_and_however_long_it_is() {
    let masker = masker();
    for _ in 0..2 {
        for bytes in
            [1, 2, REMEMBERED_BYTES_MAX - 1, REMEMBERED_BYTES_MAX, REMEMBERED_BYTES_MAX + 1]
        {
            let value = "v".repeat(bytes);
            let mut out = Vec::new();
            masker
                .json(format!("[\"{value}\"]").as_bytes(), &[], Elision::Nothing, &mut out)
                .unwrap();
            let answered = String::from_utf8(out).unwrap();
            assert_eq!(answered, format!("[{}]", h(&value)));
            let mut out = Vec::new();
            masker.sent_json(format!("[\"{value}\"]").as_bytes(), &[], &mut out).unwrap();
            assert_eq!(String::from_utf8(out).unwrap(), answered);
        }
    }
}

#[test]
fn values_are_masked_and_all_else_stays() {
    let text = r#"{ "a" : "x" ,"b":[ "y",1, 1e3,true,null,{"c":"z"}],"d":{},"e":[],"":""}"#;
    let (x, y, z, none) = (h("x"), h("y"), h("z"), h(""));
    let expected = format!(
        r#"{{ "a":{x} ,"b":[ {y},1, 1e3,true,null,{{"c":{z}}}],"d":{{}},"e":[],"":{none}}}"#
    );
    assert_eq!(masked(text, &[], Elision::Nothing).unwrap(), expected);
    assert_eq!(masked("\"x\"", &[], Elision::Nothing).unwrap(), x);
    assert_eq!(masked("null", &[], Elision::Nothing).unwrap(), "null");
}

#[test]
fn a_value_is_masked_however_deep_it_is() {
    for depth in 0..=64 {
        for (open, close) in [("[", "]"), (r#"{"n":"#, "}")] {
            let nested =
                |value: &str| format!("{}{value}{}", open.repeat(depth), close.repeat(depth));
            let got = masked(&nested("\"secret\""), &[], Elision::Nothing).unwrap();
            assert_eq!(got, nested(&h("secret")), "{open} {depth}");
        }
    }
}

#[test]
fn escapes_are_decoded_before_they_are_hashed() {
    let plain = h("a\"b\\c\u{e9}\n");
    for text in [r#""a\"b\\c\u00e9\n""#, r#""a\u0022b\u005cé\u000a""#] {
        let text = text.replace("b\\u005cé", "b\\u005cc\\u00e9");
        assert_eq!(masked(&text, &[], Elision::Nothing).unwrap(), plain, "{text}");
    }
}

#[test]
fn exempt_names_keep_their_texts_wherever_they_are() {
    let text = r#"{"p":"1","q":{"p":["2",["3"]]},"s":"p","\u0070":"3","t":["p"],"p":4}"#;
    let (p, t) = (h("p"), h("p"));
    let expected =
        format!(r#"{{"p":"1","q":{{"p":["2",["3"]]}},"s":{p},"\u0070":"3","t":[{t}],"p":4}}"#);
    assert_eq!(masked(text, &["p"], Elision::Nothing).unwrap(), expected);
}

/// `data` is what a KV secret is in: who exempts it does not mean the secret.
#[test]
fn an_object_under_an_exempt_name_is_masked_by_its_own_names() {
    let text = r#"{"p":{"a":"1","b":["2"],"p":"3"},"q":{"p":["4",{"a":"5","p":"6"},"7",[{"b":"8"},"9"]]}}"#;
    let [one, two, five, eight] = ["1", "2", "5", "8"].map(h);
    let expected = format!(
        r#"{{"p":{{"a":{one},"b":[{two}],"p":"3"}},"q":{{"p":["4",{{"a":{five},"p":"6"}},"7",[{{"b":{eight}}},"9"]]}}}}"#
    );
    assert_eq!(masked(text, &["p"], Elision::Nothing).unwrap(), expected);
}

/// Whatever an exempt value is, it ends where it ends: what stands behind it is masked.
#[test]
fn what_stands_behind_an_exempt_value_is_masked() {
    for value in [
        "4",
        "-1.5e3",
        "true",
        "null",
        "\"v\"",
        "[]",
        "{}",
        "[1,\"v\"]",
        "[[1,[2]],{\"a\":[3]},\"v\"]",
        "{\"a\":4,\"b\":{\"c\":{}}}",
        "\"}\"",
        "[\"],\"]",
        "{\"}\":1}",
    ] {
        for (open, close) in [("{", "}"), ("{\"q\":[{", "}]}"), ("[1,{\"q\":[]},{", "}]")] {
            let text =
                |secret: &str| format!("{open}\"p\":{value},\"s\":{secret},\"p\":{value}{close}");
            let got = masked(&text("\"x\""), &["p"], Elision::Nothing).unwrap();
            assert_eq!(got, text(&h("x")));
        }
    }
}

/// An exempt value that took the next name with it would hide what is said of that name.
#[test]
fn an_exempt_value_ends_before_the_next_name() {
    let text = r#"{"p":4,"q":"v","p":null,"keys":["a"]}"#;
    let expected = r#"{"p":4,"q":"v","p":null,"keys":1}"#;
    assert_eq!(masked(text, &["p", "q"], Elision::ListedNames).unwrap(), expected);
    assert_eq!(masked(text, &["p", "q", "keys"], Elision::ListedNames).unwrap(), expected);
}

#[test]
fn a_listing_has_as_many_entries_as_are_written() {
    for entry in ["1", "22", "\"a\"", "[]", "{}", "[1,2]", "{\"a\":[1,2],\"b\":3}", " 1 ", "\",\""]
    {
        for count in 0..6 {
            let text = format!("{{\"keys\":[{}]}}", vec![entry; count].join(","));
            let expected = format!("{{\"keys\":{count}}}");
            assert_eq!(masked(&text, &[], Elision::ListedNames).unwrap(), expected, "{text}");
        }
    }
}

#[test]
fn listings_are_counted_at_the_top_only() {
    for (text, expected) in [
        (
            r#"{"keys":["a","b,]"],"key_info":{"a":{"x":[1,2]},"b":{}}}"#,
            r#"{"keys":2,"key_info":2}"#,
        ),
        (r#"{"keys":[],"key_info":{ }}"#, r#"{"keys":0,"key_info":0}"#),
        (r#"{"keys":3}"#, r#"{"keys":3}"#),
        (r#"{"a":{"keys":[1,2]}}"#, r#"{"a":{"keys":[1,2]}}"#),
    ] {
        assert_eq!(masked(text, &[], Elision::ListedNames).unwrap(), expected, "{text}");
    }
}

#[test]
fn of_what_a_version_says_of_itself_its_number_is_left() {
    let (x, y) = (h("x"), h("y"));
    for (text, expected) in [
        (
            r#"{"data":{"a":"x"},"metadata":{"created_time":"t","custom_metadata":{"version":"}","b":[1,{"version":7}]},"destroyed":false,"version":12}}"#,
            format!(r#"{{"data":{{"a":{x}}},"metadata":{{"version":12}}}}"#),
        ),
        (
            r#"{ "metadata" : { "version" : 3 , "a" : "x" } , "b" : "y" }"#,
            format!(r#"{{ "metadata":{{"version":3}} , "b":{y} }}"#),
        ),
        // What a secret calls so is the secret.
        (
            r#"{"data":{"metadata":{"version":1,"a":"x"}},"metadata":{"version":2}}"#,
            format!(
                r#"{{"data":{{"metadata":{{"version":1,"a":{x}}}}},"metadata":{{"version":2}}}}"#
            ),
        ),
        // Nothing that has no number is told by one.
        (r#"{"metadata":{"version":"x"}}"#, format!(r#"{{"metadata":{{"version":{x}}}}}"#)),
        (r#"{"metadata":{"version":-1}}"#, r#"{"metadata":{"version":-1}}"#.to_owned()),
        (r#"{"metadata":{"a":"x"}}"#, format!(r#"{{"metadata":{{"a":{x}}}}}"#)),
        (r#"{"metadata":["version","x"]}"#, format!(r#"{{"metadata":[{},{x}]}}"#, h("version"))),
        (r#"{"metadata":"x","a":"y"}"#, format!(r#"{{"metadata":{x},"a":{y}}}"#)),
        (r#"{"metadata":{},"a":null}"#, r#"{"metadata":{},"a":null}"#.to_owned()),
    ] {
        assert_eq!(masked(text, &[], Elision::VersionMetadata).unwrap(), expected, "{text}");
        let (raw, mut out) = (Masker::new(&[7; SALT_BYTES], Secrecy::Raw), Vec::new());
        raw.json(text.as_bytes(), &[], Elision::VersionMetadata, &mut out).unwrap();
        let masked: serde_json::Value = serde_json::from_str(&expected).unwrap();
        let raw: serde_json::Value = serde_json::from_slice(&out).unwrap();
        assert_eq!(
            raw["metadata"].as_object().map(serde_json::Map::len),
            masked["metadata"].as_object().map(serde_json::Map::len),
            "{text}"
        );
    }
}

#[test]
fn text_that_is_cut_short_is_refused_at_every_place() {
    let text = r#"{"a":["x\"y",{"b":"z"}],"p":{"c":"d"}}"#;
    for cut in 1..text.len() {
        assert_eq!(masked(&text[..cut], &["p"], Elision::ListedNames), Err(MalformedJson), "{cut}");
    }
    let text = r#"{"data":{"a":"x"},"metadata":{"a":{"b":["y\"",1]},"version":12}}"#;
    for cut in 1..text.len() {
        let cut = masked(&text[..cut], &[], Elision::VersionMetadata);
        assert_eq!(cut, Err(MalformedJson));
    }
    assert_eq!(masked("]", &[], Elision::Nothing), Err(MalformedJson));
}

#[test]
fn raw_devices_mask_nothing() {
    let raw = Masker::new(&[7; SALT_BYTES], Secrecy::Raw);
    let mut out = Vec::new();
    raw.json(br#"{"a":"x","keys":["n"]}"#, &[], Elision::ListedNames, &mut out).unwrap();
    assert_eq!(out, br#"{"a":"x","keys":1}"#);
}
