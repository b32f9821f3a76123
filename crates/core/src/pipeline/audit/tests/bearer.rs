//! Who asks, and from what view, as the records of a request say it.

use kallisto_auth::Operation::{Read, Update};

use super::{Site, settings, text};
use crate::api::json::{self, Json, Map};
use crate::api::request::{HeaderSource, Headers, Request};
use crate::api::response::Response;
use crate::pipeline::freshness::{CONSISTENCY_HEADER, STALE};
use crate::platform::server_info::RouteAccess;
use crate::routes::tests::{ROOT, request};

/// The `auth` and the data of an answer.
fn told(site: &Site, path: &str, body: &str) -> (Map, Map) {
    let Response::Logical(reply) = site.root(Update, path, body).unwrap() else {
        panic!("{path} says nothing")
    };
    let object = |text: &[u8]| json::parse_object(text).unwrap_or_default();
    (object(&reply.auth), object(&reply.data))
}

#[test]
fn a_token_of_somebody_stands_in_the_records_with_who_that_is() {
    let site = Site::open(settings(RouteAccess::Token));
    let (_, entity) = told(&site, "identity/entity", r#"{"name":"e","policies":["of-entity"]}"#);
    let entity = text(&entity, &["id"]).to_owned();
    let accessor =
        site.core.view().unwrap().mounts.at("auth/token/").unwrap().entry.accessor.clone();
    let alias =
        format!(r#"{{"name":"a","canonical_id":"{entity}","mount_accessor":"{accessor}"}}"#);
    site.root(Update, "identity/entity-alias", &alias).unwrap();
    let role = r#"{"allowed_entity_aliases":["a"],"allowed_policies":["own"]}"#;
    site.root(Update, "auth/token/roles/r", role).unwrap();
    let (auth, _) =
        told(&site, "auth/token/create/r", r#"{"entity_alias":"a","policies":["own"]}"#);
    let token = text(&auth, &["client_token"]);
    let read = request(Some(token), Read, "auth/token/lookup-self", "");
    let (records, answer) = site.recorded(|| site.ask(&read));
    let Ok(Response::Logical(reply)) = answer else { panic!("{answer:?}") };
    let own = json::parse_object(&reply.data).unwrap();
    assert_eq!(own["identity_policies"], Json::strings(["of-entity"]));
    assert_eq!(records.len(), 2);
    for record in &records {
        assert_eq!(text(record, &["auth", "entity_id"]), entity);
        assert_eq!(text(record, &["request", "client_id"]), entity);
        let auth = record["auth"].as_object().unwrap();
        assert_eq!(auth["identity_policies"], Json::strings(["of-entity"]));
        assert_eq!(auth["policies"], Json::strings(["default", "of-entity", "own"]));
    }
}

#[test]
fn a_token_of_nobody_is_counted_by_an_id_of_its_own() {
    let site = Site::open(settings(RouteAccess::Token));
    let client_of = |policies: &str| {
        let (auth, _) = told(&site, "auth/token/create", &format!(r#"{{"policies":{policies}}}"#));
        let token = text(&auth, &["client_token"]).to_owned();
        let read = request(Some(&token), Read, "auth/token/lookup-self", "");
        let (records, _) = site.recorded(|| site.ask(&read));
        text(&records[0], &["request", "client_id"]).to_owned()
    };
    let (one, other) = (client_of(r#"["a"]"#), client_of(r#"["b"]"#));
    assert!(!one.is_empty() && !other.is_empty() && one != other, "{one} {other}");
}

#[test]
fn what_says_which_operation_it_is_is_no_data() {
    let site = Site::open(settings(RouteAccess::Token));
    let data = |query: &[(&str, &str)]| {
        let query = query.iter().map(|&(name, value)| (name.to_owned(), value.to_owned()));
        let read = request(Some(ROOT), Read, "secret/data/a", "");
        let read = Request { query: query.collect(), ..read };
        let (records, _) = site.recorded(|| site.ask(&read));
        let data = records[0]["request"].as_object().unwrap().get("data").cloned();
        data.map(|data| data.as_object().unwrap().keys().cloned().collect::<Vec<_>>())
    };
    assert_eq!(data(&[("list", "false"), ("version", "1")]), Some(vec!["version".to_owned()]));
    assert_eq!(data(&[("scan", "false")]), None);
}

struct AsksForStale;

impl HeaderSource for AsksForStale {
    fn values(&self, name: &str) -> Vec<String> {
        if name == CONSISTENCY_HEADER { vec![STALE.to_owned()] } else { Vec::new() }
    }
}

#[test]
fn an_answer_from_a_view_that_is_too_old_says_so_in_its_records() {
    let (store, site) = super::member_states::aged_site();
    let marked = |asks: bool| {
        let headers = if asks { Headers::of(&AsksForStale) } else { Headers::default() };
        let read = request(Some(ROOT), Read, "auth/token/lookup-self", "");
        let (records, answer) = site.recorded(|| site.ask(&Request { headers, ..read }));
        let marks = records.iter().map(|record| text(record, &["request", "consistency"]));
        (marks.collect::<Vec<_>>() == ["stale", "stale"], answer.is_ok())
    };
    assert_eq!((marked(false), marked(true)), ((false, true), (false, true)), "it is recent");
    store.age(std::time::Duration::from_secs(3600));
    assert_eq!((marked(false), marked(true)), ((false, false), (true, true)));
}
