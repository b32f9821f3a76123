//! Questions about policies, as the page and operators ask them: `policies/explain`, `policies/check`.

use kallisto_core::json::{self, Json, Map};
use kallisto_core::{Error, Operation, Request, Response};

use crate::support::{Site, ask_as, request_of};

const EXPLAIN: &str = "sys/policies/explain";
const OWN: &str = "sys/internal/ui/explain";
const CHECK: &str = "sys/policies/check";

fn site() -> Site {
    let site = Site::open(1 << 20);
    put_policy(&site, "reader", "path \"secret/data/*\" { capabilities = [\"read\"] }\n");
    put_policy(&site, "deny", "\npath \"secret/data/no\" { capabilities = [\"deny\"] }\n");
    for (id, policies) in [("bearer", r#"["reader"]"#), ("other", r#"["reader","deny"]"#)] {
        let body = format!(r#"{{"id":"{id}","policies":{policies},"no_default_policy":true}}"#);
        site.ask(Operation::Update, "auth/token/create", &body).unwrap();
    }
    site
}

fn put_policy(site: &Site, name: &str, text: &str) {
    let body = Json::object([("policy", text.into())]).to_text();
    let path = format!("sys/policies/acl/{name}");
    site.ask(Operation::Update, &path, std::str::from_utf8(&body).unwrap()).unwrap();
}

fn ask(site: &Site, token: &str, path: &str, body: &Json) -> Result<Map, Error> {
    let body = String::from_utf8(body.to_text()).unwrap();
    match ask_as(&site.core, token, 0, Operation::Update, path, &body)? {
        Response::Logical(answer) => {
            Ok(json::parse(&answer.data).unwrap().as_object().unwrap().clone())
        }
        other => panic!("{other:?}"),
    }
}

fn object(text: &str) -> Json {
    json::parse(text.as_bytes()).unwrap()
}

fn accessor(site: &Site, token: &str) -> String {
    let body = Json::object([("token", token.into())]);
    let told = ask(site, "root", "auth/token/lookup", &body).unwrap();
    told["accessor"].as_str().unwrap().to_owned()
}

/// The cells of a grid as `path capability allowed policy:line`.
fn cells(answer: &Map) -> Vec<String> {
    let Json::Array(grid) = &answer["grid"] else { panic!("no grid") };
    let text = |map: &Map, name: &str| map[name].as_str().unwrap_or_default().to_owned();
    let cell = |cell: &Json| {
        let cell = cell.as_object().unwrap();
        let source = cell["decided_by"].as_object().map(|rule| {
            let Json::Array(sources) = &rule["sources"] else { panic!("no sources") };
            let source = sources[0].as_object().unwrap();
            let Json::Number(line) = &source["line"] else { panic!("no line") };
            format!(" {}:{line}", text(source, "policy"))
        });
        let allowed = cell["allowed"] == true.into();
        let (path, capability) = (text(cell, "path"), text(cell, "capability"));
        format!("{path} {capability} {allowed}{}", source.unwrap_or_default())
    };
    grid.iter().map(cell).collect()
}

#[test]
fn a_grid_answers_each_path_for_each_capability_by_the_rule_that_decides() {
    let site = site();
    let body =
        object(r#"{"paths":["secret/data/a","secret/data/no"],"capabilities":["read","update"]}"#);
    for (token, route) in [("other", EXPLAIN), ("other", OWN)] {
        assert_eq!(
            cells(&ask(&site, token, route, &body).unwrap()),
            [
                "secret/data/a read true reader:1",
                "secret/data/a update false reader:1",
                "secret/data/no read false deny:2",
                "secret/data/no update false deny:2",
            ]
        );
    }
    let of_root = ask(&site, "root", EXPLAIN, &body).unwrap();
    assert!(of_root["root"] == true.into());
    assert_eq!(cells(&of_root)[3], "secret/data/no update true");
}

#[test]
fn a_token_asks_about_itself_by_its_accessor_and_about_nobody_else() {
    let site = site();
    let about = |accessor: &str| {
        Json::object([("path", "secret/data/no".into()), ("accessor", accessor.into())])
    };
    let own = about(&accessor(&site, "bearer"));
    for route in [EXPLAIN, OWN] {
        assert!(ask(&site, "bearer", route, &own).unwrap()["allowed"] == true.into(), "{route}");
    }
    let others = about(&accessor(&site, "other"));
    assert!(matches!(ask(&site, "bearer", EXPLAIN, &others), Err(Error::Denied(_))));
    assert!(matches!(ask(&site, "bearer", OWN, &others), Err(Error::Invalid(_))));
    assert!(ask(&site, "root", EXPLAIN, &others).unwrap()["allowed"] == false.into());
    // What policies say that it does not have is not told either, nor who an entity is.
    for body in [
        r#"{"path":"secret/data/no","policies":["deny"]}"#,
        r#"{"path":"a","entity_id":"00000000-0000-4000-8000-000000000000"}"#,
    ] {
        let body = object(body);
        assert!(matches!(ask(&site, "bearer", EXPLAIN, &body), Err(Error::Denied(_))));
        assert!(ask(&site, "bearer", OWN, &body).is_err());
    }
    let answer = ask_as(&site.core, "hvs.nobody", 0, Operation::Update, OWN, r#"{"path":"a"}"#);
    assert!(matches!(answer, Err(Error::Denied(_))));
}

#[test]
fn a_draft_is_tried_without_being_stored() {
    let site = site();
    let draft = r#"{"paths":["secret/data/a"],"draft":{"deny":"path \"secret/data/a\" { capabilities = [\"deny\"] }"}}"#;
    let tried = ask(&site, "bearer", OWN, &object(draft)).unwrap();
    assert_eq!(cells(&tried), ["secret/data/a read false deny:1"]);
    let saved = ask(&site, "bearer", OWN, &object(r#"{"paths":["secret/data/a"]}"#)).unwrap();
    assert_eq!(cells(&saved), ["secret/data/a read true reader:1"]);
    // A set of policies, as a role would give them, one of them in a new text.
    let role = r#"{"paths":["secret/data/no","secret/data/a"],"policies":["Reader","deny"],
        "draft":{"deny":"path \"secret/data/a\" { capabilities = [\"deny\"] }"}}"#;
    assert_eq!(
        cells(&ask(&site, "root", EXPLAIN, &object(role)).unwrap()),
        ["secret/data/no read true reader:1", "secret/data/a read false deny:1"]
    );
    let wrong =
        object(r#"{"path":"a","draft":{"deny":"path \"a\" {\n capabilities = [\"x\"] }"}}"#);
    let told = ask(&site, "bearer", OWN, &wrong).unwrap_err().to_string();
    assert!(told.contains("line 2, column 18"), "{told}");
}

#[test]
fn an_entity_is_asked_about_with_its_groups_and_a_disabled_one_may_nothing() {
    let site = site();
    let made =
        ask(&site, "root", "identity/entity", &object(r#"{"name":"ada","policies":["deny"]}"#));
    let id = made.unwrap()["id"].as_str().unwrap().to_owned();
    let group = Json::object([
        ("name", "team".into()),
        ("policies", Json::strings(["reader"])),
        ("member_entity_ids", Json::strings([id.as_str()])),
    ]);
    ask(&site, "root", "identity/group", &group).unwrap();
    let question = Json::object([
        ("entity_id", id.as_str().into()),
        ("paths", Json::strings(["secret/data/a", "secret/data/no"])),
    ]);
    assert_eq!(
        cells(&ask(&site, "root", EXPLAIN, &question).unwrap()),
        ["secret/data/a read true reader:1", "secret/data/no read false deny:2"]
    );
    let off = r#"{"disabled":true}"#;
    site.ask(Operation::Update, &format!("identity/entity/id/{id}"), off).unwrap();
    let told = ask(&site, "root", EXPLAIN, &question).unwrap();
    let Json::Array(grid) = &told["grid"] else { panic!("no grid") };
    assert!(grid.iter().all(|cell| cell.as_object().unwrap()["allowed"] == false.into()));
}

#[test]
fn a_question_that_is_too_large_is_refused_with_its_size() {
    let site = site();
    let paths: Vec<String> = (0..1_025).map(|at| format!("secret/data/{at}")).collect();
    let body = Json::object([("paths", Json::strings(paths.clone()))]);
    let told = ask(&site, "bearer", OWN, &body).unwrap_err().to_string();
    assert!(told.contains("1025"), "{told}");
    let fits = Json::object([("paths", Json::strings(paths[1..].to_vec()))]);
    assert_eq!(cells(&ask(&site, "bearer", OWN, &fits).unwrap()).len(), 1_024);
    let rules: String =
        (0..8_192).map(|at| format!("path \"{at}\" {{ policy = \"read\" }}\n")).collect();
    let body = Json::object([
        ("paths", Json::strings(paths[1..].to_vec())),
        ("draft", Json::object([("wide", rules.as_str().into())])),
    ]);
    let told = ask(&site, "bearer", OWN, &body).unwrap_err().to_string();
    assert!(told.contains("rules"), "{told}");
}

#[test]
fn a_route_that_takes_sudo_is_allowed_by_a_rule_with_it_alone() {
    let site = site();
    let allowed = |capabilities: &str| {
        let rule = format!("path \"sys/audit\" {{ capabilities = [{capabilities}] }}");
        let draft = Json::object([("d", rule.as_str().into())]);
        let body = Json::object([
            ("path", "sys/audit".into()),
            ("policies", Json::strings(["d"])),
            ("draft", draft),
        ]);
        ask(&site, "root", EXPLAIN, &body).unwrap()["allowed"].clone()
    };
    assert_eq!(allowed("\"read\""), false.into());
    assert_eq!(allowed("\"read\", \"sudo\""), true.into());
}

#[test]
fn a_token_asks_about_its_own_entity_and_about_no_other() {
    let site = site();
    site.ask(Operation::Update, "sys/auth/up", r#"{"type":"userpass"}"#).unwrap();
    let user = r#"{"password":"pw","token_policies":["reader"]}"#;
    site.ask(Operation::Update, "auth/up/users/bob", user).unwrap();
    let auth = crate::logins::log_in(&site, 0, "auth/up/login/bob", r#"{"password":"pw"}"#);
    let auth = auth.unwrap();
    let (token, own) = (auth["client_token"].as_str().unwrap(), auth["entity_id"].clone());
    let other = ask(&site, "root", "identity/entity", &object(r#"{"name":"ann"}"#)).unwrap();
    let about = |entity: &Json| {
        let body = Json::object([("path", "secret/data/a".into()), ("entity_id", entity.clone())]);
        ask(&site, token, OWN, &body).map(|answer| answer["allowed"].clone())
    };
    assert_eq!(about(&own), Ok(true.into()));
    assert!(matches!(about(&other["id"]), Err(Error::Invalid(_))));
}

/// What a token of a namespace above may here is written there.
#[test]
fn a_draft_is_refused_for_a_token_of_a_namespace_above() {
    let site = site();
    site.ask(Operation::Update, "sys/namespaces/team", "").unwrap();
    put_policy(&site, "below", "path \"team/secret/data/*\" { capabilities = [\"read\"] }\n");
    let body = r#"{"id":"above","policies":["below"],"no_default_policy":true}"#;
    site.ask(Operation::Update, "auth/token/create", body).unwrap();
    let asked = |body: &str| {
        let request = request_of("above", 0, Operation::Update, OWN, body);
        let request = Request { namespace: "team/", ..request };
        match pollster::block_on(site.core.handle(&request)) {
            Ok(Response::Logical(answer)) => Ok(json::parse_object(&answer.data).unwrap()),
            Ok(other) => panic!("{other:?}"),
            Err(error) => Err(error),
        }
    };
    let saved = asked(r#"{"path":"secret/data/a"}"#).unwrap();
    assert_eq!(saved["allowed"], true.into());
    let why = asked(r#"{"path":"secret/data/a","draft":{"p":"path \"a\" { policy = \"deny\" }"}}"#);
    assert!(matches!(why, Err(Error::Invalid(why)) if why.contains("a namespace above")));
}

/// The warnings as `line kind`.
fn warnings(answer: &Map) -> Vec<String> {
    let Json::Array(warnings) = &answer["warnings"] else { panic!("no warnings") };
    let warning = |warning: &Json| {
        let map = warning.as_object().unwrap();
        let Json::Number(line) = &map["line"] else { panic!("no line") };
        format!("{line} {}", map["kind"].as_str().unwrap())
    };
    warnings.iter().map(warning).collect()
}

const FLAWED: &str = r#"path "secret/a" { capabilities = ["read"] }
path "nowhere/*" { capabilities = ["read"] }
path "sys/audit/*" { capabilities = ["update"] }
path "secret/data/*" { capabilities = ["read"] }
path "secret/+/b*" { capabilities = ["read"] }
path "secret/*" { capabilities = ["list"] }
path "secret/metadata/+/x" { capabilities = ["list"] }
path "sys/mounts" { capabilities = ["read"] }
"#;

#[test]
fn a_policy_is_checked_with_the_place_of_each_error_and_what_does_nothing() {
    let site = site();
    let body = Json::object([("policy", FLAWED.into())]);
    let told = ask(&site, "root", CHECK, &body).unwrap();
    assert_eq!(warnings(&told), ["1 kv_v2_path", "2 no_mount", "3 sudo", "5 unreached"]);
    let Json::Array(rules) = &told["rules"] else { panic!("no rules") };
    assert_eq!(rules.len(), 8);
    // Which mounts there are is for those who reach them.
    put_policy(&site, "weak", "path \"sys/nothing\" { capabilities = [\"read\"] }");
    let weak = r#"{"id":"weak","policies":["weak"],"no_default_policy":true}"#;
    site.ask(Operation::Update, "auth/token/create", weak).unwrap();
    assert_eq!(warnings(&ask(&site, "weak", CHECK, &body).unwrap()), ["3 sudo", "5 unreached"]);
    assert_eq!(
        warnings(&ask(&site, "bearer", CHECK, &body).unwrap()),
        ["1 kv_v2_path", "3 sudo", "5 unreached"]
    );
    let broken = "path \"a\" {\n  capabilities = [\"conquer\"]\n}\npath \"b\" { x = 1 }";
    let told = ask(&site, "bearer", CHECK, &Json::object([("policy", broken.into())])).unwrap();
    let expected = r#"[{"column":19,"line":2,"message":"path \"a\": invalid capability \"conquer\""},{"column":12,"line":4,"message":"path \"b\": invalid key \"x\""}]"#;
    assert_eq!(told["errors"], object(expected));
    let nothing = ask(&site, "bearer", CHECK, &object("{}")).unwrap_err();
    assert!(matches!(nothing, Error::Invalid(_)));
    let path = "sys/policies/acl/checked";
    assert_eq!(site.ask(Operation::Read, path, "").unwrap_err(), Error::NotFound);
}

#[test]
fn no_warning_comes_of_patterns_that_may_lead_somewhere() {
    let site = site();
    site.ask(Operation::Update, "sys/namespaces/team", "").unwrap();
    let warned = |rule: &str| {
        let body = Json::object([("policy", rule.into())]);
        warnings(&ask(&site, "root", CHECK, &body).unwrap())
    };
    for rule in [
        r#"path "team/other/*" { capabilities = ["read"] }"#,
        r#"path "team/+/a" { capabilities = ["read"] }"#,
        r#"path "sec*" { capabilities = ["read"] }"#,
        r#"path "*" { capabilities = ["read"] }"#,
        r#"path "sys/audit/*" { capabilities = ["update", "sudo"] }"#,
        r#"path "sys/audit/*" { capabilities = ["deny"] }"#,
    ] {
        assert_eq!(warned(rule), [""; 0], "{rule}");
    }
    assert_eq!(warned(r#"path "sec" { capabilities = ["read"] }"#), ["1 no_mount"]);
    assert_eq!(warned(r#"path "tea*" { capabilities = ["read"] }"#), ["1 no_mount"]);
}

#[test]
fn a_refused_policy_is_told_with_its_path_once_and_its_line() {
    let site = site();
    let body = r#"{"policy":"path \"a\" {\n  capabilities = [\"conquer\"]\n}"}"#;
    let told = site.ask(Operation::Update, "sys/policies/acl/p", body).unwrap_err().to_string();
    assert_eq!(
        told,
        "failed to parse policy: path \"a\": invalid capability \"conquer\" on line 2, column 19"
    );
}
