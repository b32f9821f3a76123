//! What may be asked of a token when it is made, and what is told of tokens, roles and leases afterwards.

use kallisto_core::json::{self, Json, Map};
use kallisto_core::{Error, Operation, Request, Response};

use crate::support::{Site, ask_as, logical, request_of};

use Operation::{List, Read, Update};

const CREATE: &str = "auth/token/create";
/// The maximum of a mount that says nothing.
const MAX_SECS: u64 = 32 * 24 * 60 * 60;

fn site() -> Site {
    let site = Site::open(1 << 20);
    for (name, rules) in [
        ("maker", r#"path \"auth/token/create*\" { capabilities = [\"update\"] }"#),
        ("chief", r#"path \"auth/token/create*\" { capabilities = [\"update\", \"sudo\"] }"#),
    ] {
        let body = format!(r#"{{"policy":"{rules}"}}"#);
        site.ask(Update, &format!("sys/policies/acl/{name}"), &body).unwrap();
    }
    site
}

fn data(answer: Response) -> Map {
    let Response::Logical(reply) = answer else { panic!("{answer:?}") };
    json::parse_object(&reply.data).unwrap()
}

/// What is told of a new token, and the warnings.
fn make(site: &Site, maker: &str, path: &str, body: &str) -> Result<(Map, Vec<String>), Error> {
    match ask_as(&site.core, maker, 0, Update, path, body)? {
        Response::Logical(reply) => Ok((json::parse_object(&reply.auth).unwrap(), reply.warnings)),
        other => panic!("{other:?}"),
    }
}

/// A token made by root.
fn token(site: &Site, body: &str) -> String {
    text(&make(site, "root", CREATE, body).unwrap().0, "client_token").to_owned()
}

fn text<'m>(map: &'m Map, name: &str) -> &'m str {
    map[name].as_str().unwrap()
}

fn names(map: &Map, name: &str) -> Vec<String> {
    let Json::Array(names) = &map[name] else { panic!("{name}") };
    names.iter().map(|name| name.as_str().unwrap().to_owned()).collect()
}

fn lookup(site: &Site, token: &str) -> Map {
    let body = format!(r#"{{"token":"{token}"}}"#);
    data(site.ask(Update, "auth/token/lookup", &body).unwrap())
}

fn refusal<T: std::fmt::Debug>(answer: Result<T, Error>) -> String {
    match answer {
        Err(Error::Invalid(what)) => what.to_string(),
        other => panic!("{other:?}"),
    }
}

#[test]
fn only_those_with_sudo_make_orphans_periodic_tokens_and_tokens_of_a_chosen_text() {
    let site = site();
    let maker = token(&site, r#"{"policies":["maker"]}"#);
    let chief = token(&site, r#"{"policies":["chief"]}"#);
    for (body, what) in [
        (r#"{"no_parent":true}"#, "create orphan token"),
        (r#"{"period":"1h"}"#, "create periodic token"),
        (r#"{"id":"chosen"}"#, "specify token id"),
    ] {
        let refused = refusal(make(&site, &maker, CREATE, body));
        assert_eq!(refused, format!("root or sudo privileges required to {what}"));
        make(&site, &chief, CREATE, body).unwrap();
    }
    let refused = refusal(make(&site, &chief, CREATE, r#"{"num_uses":-1}"#));
    assert_eq!(refused, "number of uses cannot be negative");
}

#[test]
fn a_chosen_text_is_of_printable_letters_and_not_too_long() {
    let site = site();
    let made = |id: &str| make(&site, "root", CREATE, &format!(r#"{{"id":"{id}"}}"#));
    made(&"x".repeat(512)).unwrap();
    for id in ["x".repeat(513), "x".repeat(600), "with space".to_owned(), "\\u0007".to_owned()] {
        assert!(refusal(made(&id)).contains("printable ASCII"), "{id}");
    }
}

#[test]
fn an_orphan_of_a_bound_token_is_used_from_anywhere() {
    let site = site();
    let role = r#"{"token_bound_cidrs":"10.0.0.0/8","allowed_policies":"chief"}"#;
    site.ask(Update, "auth/token/roles/r", role).unwrap();
    let (bound, _) = make(&site, "root", "auth/token/create/r", "{}").unwrap();
    let bound = text(&bound, "client_token");
    for (body, is_bound) in [("{}", true), (r#"{"no_parent":true}"#, false)] {
        let request = Request {
            remote: Some("10.0.0.1:1".parse().unwrap()),
            ..request_of(bound, 0, Update, CREATE, body)
        };
        let Response::Logical(reply) = pollster::block_on(site.core.handle(&request)).unwrap()
        else {
            panic!("a token")
        };
        let auth = json::parse_object(&reply.auth).unwrap();
        let told = lookup(&site, text(&auth, "client_token"));
        assert_eq!(told.contains_key("bound_cidrs"), is_bound, "{body}");
    }
}

#[test]
fn the_default_policy_is_inherited_from_a_maker_that_has_it() {
    let site = site();
    let with = token(&site, r#"{"policies":["maker"]}"#);
    let without = token(&site, r#"{"policies":["maker"],"no_default_policy":true}"#);
    let policies = |maker: &str, body: &str| {
        names(&make(&site, maker, CREATE, body).unwrap().0, "token_policies")
    };
    let asked = r#"{"policies":["maker"]}"#;
    assert_eq!(policies(&with, asked), ["default", "maker"]);
    assert_eq!(policies(&without, asked), ["maker"]);
    let none = r#"{"policies":["maker"],"no_default_policy":true}"#;
    assert_eq!(policies(&with, none), ["maker"]);
}

#[test]
fn a_lifetime_up_to_the_maximum_is_given_without_a_word() {
    let site = site();
    for field in ["ttl", "period"] {
        for (secs, warned) in [(MAX_SECS, 0), (MAX_SECS + 1, 1)] {
            let body = format!(r#"{{"policies":["maker"],"{field}":{secs}}}"#);
            let (auth, warnings) = make(&site, "root", CREATE, &body).unwrap();
            assert_eq!(warnings.len(), warned, "{field} {secs}: {warnings:?}");
            assert_eq!(auth["lease_duration"], Json::from(MAX_SECS));
        }
    }
}

#[test]
fn what_is_noted_with_a_token_and_how_it_is_called_is_told_of_it() {
    let site = site();
    let body = r#"{"meta":{"team":"a","n":7},"display_name":"ops/Team one-2_","ttl":"1h"}"#;
    let told = lookup(&site, &token(&site, body));
    assert_eq!(told["meta"], Json::object([("team", "a".into()), ("n", "7".into())]));
    assert_eq!(text(&told, "display_name"), "token-ops-Team-one-2");
    assert_eq!(told["renewable"], Json::Bool(true));
    assert!(!told.contains_key("period") && !told.contains_key("identity_policies"));
    let told = lookup(&site, &token(&site, r#"{"policies":["maker"],"period":"1h"}"#));
    assert_eq!(told["period"], Json::from(3600_u64));
    // A root token that does not end is not renewed either; the first one was issued by nobody.
    let told = lookup(&site, &token(&site, "{}"));
    assert_eq!(told["renewable"], Json::Bool(false));
    assert!(told.contains_key("issue_time"));
    let first = lookup(&site, "root");
    assert!(!first.contains_key("renewable") && !first.contains_key("issue_time"));
}

/// Its text is all that there is of it, and has to fit into a header.
#[test]
fn a_batch_token_with_much_in_it_is_refused() {
    let site = site();
    let made = |bytes: usize| {
        let meta = "x".repeat(bytes);
        let body = format!(r#"{{"type":"batch","policies":["maker"],"meta":{{"k":"{meta}"}}}}"#);
        make(&site, "root", CREATE, &body)
    };
    made(4000).unwrap();
    for bytes in [9000, 20_000] {
        assert!(refusal(made(bytes)).contains("over the limit"));
    }
}

#[test]
fn a_token_of_a_role_is_made_at_the_path_of_the_role_and_its_suffix() {
    let site = site();
    let made_at = |role: &str| {
        site.ask(Update, "auth/token/roles/r", role).unwrap();
        let (auth, warnings) =
            make(&site, "root", "auth/token/create/r", r#"{"no_parent":true}"#).unwrap();
        let told = lookup(&site, text(&auth, "client_token"));
        (text(&told, "path").to_owned(), told["orphan"] == Json::Bool(true), warnings.len())
    };
    assert_eq!(made_at("{}"), ("auth/token/create/r".to_owned(), false, 1));
    let with_suffix = r#"{"path_suffix":"some-job","orphan":true}"#;
    assert_eq!(made_at(with_suffix), ("auth/token/create/r/some-job".to_owned(), true, 0));
}

#[test]
fn a_role_has_a_short_name_few_aliases_and_a_type_that_it_can_have() {
    let site = site();
    let write = |name: &str, body: &str| {
        site.ask(Update, &format!("auth/token/roles/{name}"), body).map(drop)
    };
    write(&"r".repeat(256), "{}").unwrap();
    for name in ["r".repeat(257), "r".repeat(400), "a/b".to_owned()] {
        assert!(write(&name, "{}").is_err(), "{name}");
    }
    let aliases = |count: usize| {
        let aliases: Vec<_> = (0..count).map(|at| format!(r#""a{at}""#)).collect();
        write("r", &format!(r#"{{"allowed_entity_aliases":[{}]}}"#, aliases.join(",")))
    };
    aliases(256).unwrap();
    assert!(refusal(aliases(257)).contains("256 entity aliases"));
    assert!(refusal(aliases(300)).contains("256 entity aliases"));
    for (body, what) in [
        (r#"{"token_type":"batch","renewable":false}"#, "non-orphan"),
        (r#"{"token_type":"batch","orphan":true}"#, "renewable"),
        (r#"{"token_type":"batch","orphan":true,"renewable":false,"token_period":60}"#, "periodic"),
    ] {
        assert!(refusal(write("b", body)).contains(what), "{body}");
    }
    write("b", r#"{"token_type":"batch","orphan":true,"renewable":false}"#).unwrap();
}

#[test]
fn a_role_shows_its_number_of_uses_if_it_has_one() {
    let site = site();
    for (uses, shown) in [(0, None), (5, Some(Json::from(5_u64)))] {
        let body = format!(r#"{{"token_num_uses":{uses}}}"#);
        site.ask(Update, "auth/token/roles/r", &body).unwrap();
        let role = data(site.ask(Read, "auth/token/roles/r", "").unwrap());
        assert_eq!(role.get("token_num_uses"), shown.as_ref());
    }
}

#[test]
fn a_role_names_the_policies_that_it_does_not_give() {
    let site = site();
    let role = r#"{"allowed_policies":["maker","other"],"disallowed_policies":["chief"]}"#;
    site.ask(Update, "auth/token/roles/r", role).unwrap();
    let made = make(&site, "root", "auth/token/create/r", r#"{"policies":["unlisted"]}"#);
    let refused = refusal(made);
    assert!(refused.contains(r#"["default" "maker" "other"]"#), "{refused}");
}

/// The lease of a token is found by the path that it was made at, and by no other.
#[test]
fn the_lease_of_a_token_has_one_name() {
    let site = site();
    token(&site, r#"{"policies":["maker"],"ttl":"1h"}"#);
    let folder = data(site.ask(List, "sys/leases/lookup/auth/token/create", "").unwrap());
    let [name] = &names(&folder, "keys")[..] else { panic!("{folder:?}") };
    let look_up = |id: &str| {
        site.ask(Update, "sys/leases/lookup", &format!(r#"{{"lease_id":"{id}"}}"#)).map(data)
    };
    let told = look_up(&format!("auth/token/create/{name}")).unwrap();
    assert_eq!(text(&told, "path"), "auth/token/create");
    for path in ["auth/token/root", "auth/token/create-orphan", "elsewhere"] {
        assert_eq!(refusal(look_up(&format!("{path}/{name}"))), "invalid lease", "{path}");
    }
}

#[test]
fn leases_are_counted_for_those_alone_that_could_not_be_revoked() {
    let site = site();
    let ask = |kind: Option<&str>| {
        let query = kind.map(|kind| ("type".to_owned(), kind.to_owned()));
        let asked = request_of("root", 0, Read, "sys/leases/count", "");
        let request = Request { query: query.into_iter().collect(), ..asked };
        pollster::block_on(site.core.handle(&request))
    };
    assert_eq!(data(ask(Some("irrevocable")).unwrap())["lease_count"], Json::from(0_u64));
    for kind in [None, Some("all")] {
        assert_eq!(ask(kind).unwrap_err(), Error::NotFound);
    }
}

/// What a list of tokens says, asked with these parameters.
fn listed(site: &Site, query: &[(&str, &str)]) -> Map {
    let query = query.iter().map(|&(name, value)| (name.to_owned(), value.to_owned()));
    let asked = request_of("root", 0, List, "sys/kallisto/tokens", "");
    let request = Request { query: query.collect(), ..asked };
    data(pollster::block_on(site.core.handle(&request)).unwrap())
}

#[test]
fn tokens_are_listed_in_pages_with_what_operators_know_them_by() {
    let site = site();
    let body = r#"{"policies":["maker"],"display_name":"job","no_parent":true}"#;
    (0..2).for_each(|_| _ = token(&site, body));
    let all = listed(&site, &[]);
    assert_eq!((names(&all, "keys").len(), &all["next"]), (3, &Json::Null));
    let kinds = |list: &Map| {
        let Json::Array(tokens) = &list["tokens"] else { panic!("no tokens") };
        let mut kinds: Vec<_> = tokens
            .iter()
            .map(|token| {
                let token = token.as_object().unwrap();
                ["type", "display_name", "path"].map(|name| text(token, name).to_owned())
            })
            .collect();
        kinds.sort();
        kinds
    };
    let made = ["service", "token-job", CREATE].map(str::to_owned);
    let root = ["root", "root", "auth/token/root"].map(str::to_owned);
    assert_eq!(kinds(&all), [root, made.clone(), made]);
    assert_eq!(listed(&site, &[("limit", "0")]), all, "no limit");
    assert_eq!(listed(&site, &[("limit", "3")])["next"], Json::Null, "all of them");
    let page = listed(&site, &[("limit", "2")]);
    assert_eq!(page["next"].as_str(), names(&page, "keys").last().map(String::as_str));
    let rest = listed(&site, &[("limit", "2"), ("after", text(&page, "next"))]);
    assert_eq!([names(&page, "keys"), names(&rest, "keys")].concat(), names(&all, "keys"));
}

#[test]
fn a_revocation_that_is_tried_counts_all_and_shows_the_first() {
    let site = site();
    let parent = token(&site, r#"{"policies":["maker"],"display_name":"parent"}"#);
    for _ in 0..24 {
        make(&site, &parent, CREATE, "{}").unwrap();
    }
    let accessor = text(&lookup(&site, &parent), "accessor").to_owned();
    let body = format!(r#"{{"accessor":"{accessor}","dry_run":true}}"#);
    let told = data(site.ask(Update, "auth/token/revoke-accessor", &body).unwrap());
    assert_eq!((&told["count"], &told["more"]), (&Json::from(25_u64), &Json::Bool(false)));
    let Json::Array(first) = &told["first"] else { panic!("{told:?}") };
    assert_eq!(first.len(), 20);
    assert_eq!(text(first[0].as_object().unwrap(), "display_name"), "token-parent");
    lookup(&site, &parent);
}

/// The metrics as a scraper reads them.
fn metrics(site: &Site) -> String {
    let request = Request {
        query: vec![("format".to_owned(), "prometheus".to_owned())],
        ..request_of("root", 0, Read, "sys/metrics", "")
    };
    match pollster::block_on(site.core.handle(&request)).unwrap() {
        Response::Text { body, .. } => String::from_utf8(body).unwrap(),
        other => panic!("{other:?}"),
    }
}

#[test]
fn new_tokens_are_counted_by_who_made_them_and_how_long_they_live() {
    let site = site();
    token(&site, r#"{"policies":["maker"],"ttl":"1h"}"#);
    let body = metrics(&site);
    let creation: Vec<_> = body.lines().filter(|line| line.contains("token_creation{")).collect();
    assert!(!creation.is_empty(), "{body}");
    for label in [r#"auth_method="token""#, r#"creation_ttl="1h""#, r#"token_type="service""#] {
        assert!(creation.iter().any(|line| line.contains(label)), "{label}: {creation:?}");
    }
}

#[test]
fn logins_and_lookups_are_timed_and_nothing_else_counts_as_one() {
    let site = site();
    site.ask(Update, "sys/auth/userpass", r#"{"type":"userpass"}"#).unwrap();
    site.ask(Update, "auth/userpass/users/u", r#"{"password":"secret"}"#).unwrap();
    let counted = |name: &str| {
        let (all, name) = (metrics(&site), format!("{name}_count "));
        let line = all.lines().find(|line| line.starts_with(&name)).map(str::to_owned);
        line.map_or(0, |line| line[name.len()..].parse::<u64>().unwrap())
    };
    let login = "vault_core_handle_login_request";
    assert_eq!(counted(login), 0);
    for _ in 0..2 {
        let body = r#"{"password":"secret"}"#;
        ask_as(&site.core, "", 0, Update, "auth/userpass/login/u", body).unwrap();
    }
    // Routes of a CA are open too, and no logins.
    site.ask(Update, "sys/mounts/pki", r#"{"type":"pki"}"#).unwrap();
    let _ = ask_as(&site.core, "", 0, Read, "pki/ca/pem", "");
    let _ = ask_as(&site.core, "", 0, Update, "pki/ocsp", "{}");
    assert_eq!((counted(login), counted("vault_token_lookup")), (2, 0));
    lookup(&site, "root");
    assert_eq!((counted(login), counted("vault_token_lookup")), (2, 1));
}

/// The page asks for help as whoever is logged in.
#[test]
fn a_token_is_helped_at_what_it_may_do() {
    let site = site();
    let maker = token(&site, r#"{"policies":["maker"],"no_default_policy":true}"#);
    let ask = |token: &str, path: &str, helped: &str| {
        let query = vec![("help".to_owned(), helped.to_owned())];
        let request = Request { query, ..request_of(token, 0, Read, path, "") };
        pollster::block_on(site.core.handle(&request))
    };
    ask(&maker, CREATE, "1").unwrap();
    assert!(matches!(ask(&maker, CREATE, "0"), Err(Error::Denied(_))), "it may not read there");
    assert!(matches!(ask(&maker, "secret/data/a", "1"), Err(Error::Denied(_))));
    assert!(matches!(ask("nobody's", CREATE, "1"), Err(Error::Denied(_))));
}

#[test]
fn a_rate_limit_for_a_role_counts_its_logins_alone() {
    let site = site();
    site.ask(Update, "sys/auth/approle", r#"{"type":"approle"}"#).unwrap();
    for role in ["one", "two"] {
        let body = r#"{"bind_secret_id":false,"token_bound_cidrs":"10.0.0.0/8"}"#;
        site.ask(Update, &format!("auth/approle/role/{role}"), body).unwrap();
        let id = format!(r#"{{"role_id":"{role}-id"}}"#);
        site.ask(Update, &format!("auth/approle/role/{role}/role-id"), &id).unwrap();
    }
    let limit = r#"{"path":"auth/approle/","role":"one","rate":1}"#;
    site.ask(Update, "sys/quotas/rate-limit/q", limit).unwrap();
    let log_in = |role: &str| {
        let body = format!(r#"{{"role_id":"{role}-id"}}"#);
        let remote = Some("10.0.0.1:1".parse().unwrap());
        let asked = request_of("", 0, Update, "auth/approle/login", &body);
        pollster::block_on(site.core.handle(&Request { remote, token: None, ..asked }))
    };
    log_in("one").unwrap();
    assert!(matches!(log_in("one"), Err(Error::OverQuota(_))));
    (0..3).for_each(|_| _ = log_in("two").unwrap());
    // Nothing else at the mount is a login of the role.
    let remote = Some("10.0.0.1:1".parse().unwrap());
    for _ in 0..3 {
        let read = request_of("root", 0, Read, "auth/approle/role/one", "");
        pollster::block_on(site.core.handle(&Request { remote, ..read })).unwrap();
    }
}

#[test]
fn a_token_from_above_is_looked_up_inside_a_namespace_as_what_it_is() {
    let site = site();
    site.ask(Update, "sys/namespaces/team", "{}").unwrap();
    let rules =
        r#"{"policy":"path \"team/auth/token/lookup-self\" { capabilities = [\"read\"] }"}"#;
    site.ask(Update, "sys/policies/acl/above", rules).unwrap();
    let above = token(&site, r#"{"policies":["above"],"display_name":"above"}"#);
    let told = ask_as(&site.core, &above, 0, Read, "team/auth/token/lookup-self", "").unwrap();
    assert_eq!(text(&data(told), "display_name"), "token-above");
}

#[test]
fn help_is_not_for_who_shows_no_token() {
    let site = site();
    let query = vec![("help".to_owned(), "1".to_owned())];
    for path in ["sys/internal/ui/mounts", "sys/mounts", "secret/data/a"] {
        let asked = request_of("", 0, Read, path, "");
        let request = Request { query: query.clone(), token: None, ..asked };
        let answer = pollster::block_on(site.core.handle(&request));
        assert!(matches!(answer, Err(Error::Denied(_))), "{path}: {answer:?}");
    }
}

#[test]
fn a_token_is_used_from_the_addresses_of_its_role_alone() {
    let site = Site::open(1 << 20);
    let role = r#"{"allowed_policies":"default","token_bound_cidrs":"10.0.0.0/8"}"#;
    site.ask(Update, "auth/token/roles/near", role).unwrap();
    let made = r#"{"id":"near","policies":["default"]}"#;
    site.ask(Update, "auth/token/create/near", made).unwrap();
    let from = |remote: Option<&str>| {
        let remote = remote.map(|remote| remote.parse().unwrap());
        let request = Request {
            remote,
            ..request_of("near", 0, Operation::Read, "auth/token/lookup-self", "")
        };
        pollster::block_on(site.core.handle(&request))
    };
    assert!(from(Some("10.1.2.3:4")).is_ok());
    for remote in [Some("11.1.2.3:4"), Some("[::1]:4"), None] {
        assert!(matches!(from(remote), Err(Error::Denied(_))), "{remote:?}");
    }
}

#[test]
fn a_login_method_that_goes_takes_the_tokens_of_its_logins_along_and_no_others() {
    let site = Site::open(1 << 20);
    let mut tokens = Vec::new();
    for method in ["one", "two"] {
        site.ask(Update, &format!("sys/auth/{method}"), r#"{"type":"userpass"}"#).unwrap();
        let user = format!("auth/{method}/users/bob");
        site.ask(Update, &user, r#"{"password":"secret-of-his"}"#).unwrap();
        let login = format!("auth/{method}/login/bob");
        let body = r#"{"password":"secret-of-his"}"#;
        let answer = ask_as(&site.core, "", 0, Update, &login, body).unwrap();
        let auth = json::parse_object(&logical(answer).auth).unwrap();
        tokens.push(auth["client_token"].as_str().unwrap().to_owned());
    }
    let lives = |token: &str| {
        ask_as(&site.core, token, 0, Operation::Read, "auth/token/lookup-self", "").is_ok()
    };
    assert!(tokens.iter().all(|token| lives(token)));
    site.ask(Operation::Delete, "sys/auth/one", "").unwrap();
    assert_eq!(tokens.iter().map(|token| lives(token)).collect::<Vec<_>>(), [false, true]);
}
