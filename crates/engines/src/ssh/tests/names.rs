//! Which principals a role signs for.

use super::*;

#[test]
fn users_are_those_of_the_list_and_the_default_one() {
    let mount = with_role(r#","allowed_users":"bob,al*","default_user":"carol""#);
    for (asked, why) in [
        ("eve", "eve is not a valid value for valid_principals"),
        ("bob,eve", "eve is not a valid value for valid_principals"),
        ("alice", "alice is not a valid value for valid_principals"),
        ("BOB", "BOB is not a valid value for valid_principals"),
    ] {
        let more = format!(r#","valid_principals":"{asked}""#);
        assert_eq!(refusal(sign(&mount, &more)), why, "{asked}");
    }
    let more = r#","valid_principals":"al*,bob,carol""#;
    assert_eq!(said(&sign(&mount, more).unwrap()).principals, ["al*", "bob", "carol"]);
    let mount = with_role(r#","default_user":"carol""#);
    assert_eq!(said(&sign(&mount, "").unwrap()).principals, ["carol"]);
    let refused = refusal(sign(&mount, r#","valid_principals":"bob""#));
    assert_eq!(refused, "role is not configured to allow any principals");
    // A star allows everybody where it is the whole list; among others it is a name.
    let mount = with_role(r#","allowed_users":"*""#);
    assert!(sign(&mount, r#","valid_principals":"eve""#).is_ok());
    for list in ["bob,*", "*,bob", "*,**"] {
        let mount = with_role(&format!(r#","allowed_users":"{list}""#));
        let refused = refusal(sign(&mount, r#","valid_principals":"eve""#));
        assert_eq!(refused, "eve is not a valid value for valid_principals", "{list}");
    }
}

#[test]
fn no_principal_is_two_for_a_server_that_splits_it() {
    let mount = with_role(r#","allowed_users":"*""#);
    for name in
        [r"a,root", r"a root", r"a\nroot", r"a\u0000root", r"a\rroot", r"\troot", r"a\u2028b"]
    {
        let refused = refusal(sign(&mount, &format!(r#","valid_principals":["{name}"]"#)));
        assert!(refused.contains("a principal has no comma, space or control character"), "{name}");
    }
    for name in [r"a\nroot", r"a\u0000root"] {
        let refused = refusal(sign(&mount, &format!(r#","valid_principals":"{name}""#)));
        assert!(refused.contains("a principal has no comma, space or control character"), "{name}");
    }
    let names: Vec<String> = (0..257).map(|at| format!("u{at}")).collect();
    let more = format!(r#","valid_principals":"{}""#, names.join(","));
    assert_eq!(refusal(sign(&mount, &more)), "more than 256 valid_principals");
}

#[test]
fn hosts_are_domains_or_below_them_as_the_role_says_whatever_their_case() {
    let ask_host = |flags: &str, host: &str| {
        let mount = mount();
        let body = format!(
            r#"{{"key_type":"ca","allow_host_certificates":true,"allowed_domains":"example.com,Glob.ORG"{flags}}}"#
        );
        ask(&mount, "roles/r", &body).unwrap();
        sign(&mount, &format!(r#","cert_type":"host","valid_principals":"{host}""#))
            .map(|answer| said(&answer).principals)
    };
    let bare = r#","allow_bare_domains":true"#;
    let below = r#","allow_subdomains":true"#;
    for (flags, host, is_allowed) in [
        ("", "example.com", false),
        (bare, "example.com", true),
        (bare, "EXAMPLE.com", true),
        (bare, "glob.org", true),
        (bare, "a.example.com", false),
        (below, "a.example.com", true),
        (below, "A.Example.COM", true),
        (below, "a.b.example.com", true),
        (below, "example.com", false),
        (below, ".example.com", false),
        (below, "evilexample.com", false),
        (below, "example.com.evil.org", false),
        (below, "a.example.com.", false),
    ] {
        let answer = ask_host(flags, host);
        assert_eq!(answer.is_ok(), is_allowed, "{flags} {host}: {answer:?}");
        if let Ok(names) = answer {
            assert_eq!(names, [host.to_ascii_lowercase()]);
        }
    }
    let twice = ask_host(below, "A.example.com,a.EXAMPLE.com,b.glob.org");
    assert_eq!(twice.unwrap(), ["a.example.com", "b.glob.org"], "each host once");
}

#[test]
fn what_identity_is_called_never_allows_more_than_the_literal_name() {
    let mount = with_role(
        r#","allowed_users":"{{identity.entity.name}},ops-{{identity.entity.metadata.team}}","allowed_users_template":true"#,
    );
    let asks =
        |mount: &TestMount, user: &str| sign(mount, &format!(r#","valid_principals":"{user}""#));
    let refused = "root is not a valid value for valid_principals";
    assert_eq!(refusal(asks(&mount, "root")), refused, "who has no entity is no user");
    assert_eq!(refusal(asks(&mount, "ops-")), "ops- is not a valid value for valid_principals");
    for name in [
        "*",
        "a*",
        "root,admin",
        ",root",
        "a b",
        "root ",
        "a\nroot",
        "{{identity.entity.id}}",
        "}}root",
        "root\0",
        "\u{202e}toor",
        "root\u{200b}",
        "",
    ] {
        mount.say_identity("identity.entity.name", name);
        for user in ["root", "admin", "*", "a", "x", "ops-"] {
            assert!(asks(&mount, user).is_err(), "{name:?} is no {user}");
        }
    }
    mount.say_identity("identity.entity.name", "bob");
    mount.say_identity("identity.entity.metadata.team", "db");
    assert!(asks(&mount, "bob").is_ok());
    assert!(asks(&mount, "ops-db").is_ok());
    assert_eq!(refusal(asks(&mount, "root")), refused);
    // A role may want a value to be several, or any.
    mount.say_identity("identity.entity.name", "root,admin");
    role(
        &mount,
        r#","allowed_users":"{{identity.entity.name}}","allowed_users_template":true,"allow_commas_in_identity_templates":true"#,
    );
    assert!(asks(&mount, "root").is_ok() && asks(&mount, "admin").is_ok());
    assert!(asks(&mount, "bob").is_err());
    mount.say_identity("identity.entity.name", "*");
    assert!(asks(&mount, "bob").is_err());
    role(
        &mount,
        r#","allowed_users":"{{identity.entity.name}}","allowed_users_template":true,"allow_wildcards_in_identity_templates":true"#,
    );
    assert!(asks(&mount, "bob").is_ok());
}
