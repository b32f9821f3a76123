//! Which rule counts a request, and what it leaves.

use super::scope::QuotaScope;
use super::*;

const SECOND: i64 = 1_000_000_000;

fn put(quotas: &Quotas, name: &str, path: &str, rate: f64) {
    put_for_role(quotas, name, path, "", rate);
}

fn put_for_role(quotas: &Quotas, name: &str, path: &str, role: &str, rate: f64) {
    let spec = RuleSpec {
        name: name.to_owned(),
        scope: QuotaScope {
            path: path.to_owned(),
            namespace: String::new(),
            role: role.to_owned(),
            is_inheritable: path.is_empty(),
        },
        rate,
        interval_secs: 1,
        block_secs: 0,
    };
    assert!(quotas.put(&format!("{RULES}{name}"), &spec.encode()));
    assert_eq!(quotas.spec(name), Some(spec));
}

/// A place in the root namespace.
fn at(path: &str) -> RequestScope<'_> {
    RequestScope { namespace: "", path, absolute: path, caseless: None }
}

/// A place in the namespace of so many first bytes.
fn inside(absolute: &str, bytes: usize) -> RequestScope<'_> {
    let (namespace, path) = absolute.split_at(bytes);
    RequestScope { namespace, path, absolute, caseless: None }
}

fn allowed(quotas: &Quotas, path: &str) -> usize {
    allowed_at(quotas, at(path))
}

fn allowed_at(quotas: &Quotas, place: RequestScope<'_>) -> usize {
    let here = "10.0.0.1".parse().unwrap();
    (0..100)
        .take_while(|_| quotas.ask_of(place, here, 5 * SECOND, Counting::Take, |_| None).is_ok())
        .count()
}

fn quotas() -> Quotas {
    Quotas::new(crate::registry::unlimited_paths().into())
}

#[test]
fn a_namespace_is_counted_with_those_below_where_the_rule_says_so() {
    let rule = |path: &str, is_inheritable: bool, rate: f64| {
        let quotas = quotas();
        let spec = RuleSpec {
            name: "n".to_owned(),
            scope: QuotaScope {
                path: path.to_owned(),
                namespace: path.to_owned(),
                is_inheritable,
                ..QuotaScope::default()
            },
            rate,
            interval_secs: 1,
            ..RuleSpec::default()
        };
        assert!(quotas.put(&format!("{RULES}n"), &spec.encode()));
        assert_eq!(quotas.spec("n"), Some(spec));
        quotas
    };
    let places = [at("x"), inside("a/x", 2), inside("a/b/x", 4), inside("ab/x", 3)];
    for (path, is_inheritable, held) in [
        ("", false, [3, 100, 100, 100]),
        ("a/", false, [100, 3, 100, 100]),
        ("a/b/", true, [100, 100, 3, 100]),
        // Those that a rule reaches share its allowance: the first takes all of it.
        ("", true, [3, 0, 0, 0]),
        ("a/", true, [100, 3, 0, 100]),
    ] {
        let quotas = rule(path, is_inheritable, 3.0);
        assert_eq!(places.map(|place| allowed_at(&quotas, place)), held, "{path} {is_inheritable}");
    }
    // A mount of a name that a namespace elsewhere has is none of its business.
    let quotas = quotas();
    put(&quotas, "mount", "a/", 2.0);
    assert_eq!((allowed_at(&quotas, inside("a/x", 2)), allowed(&quotas, "a/x")), (100, 2));
}

#[test]
fn an_exemption_holds_in_every_namespace_or_in_the_one_it_names() {
    let quotas = quotas();
    put(&quotas, "all", "", 1.0);
    let exempt = vec!["sys/health".to_owned(), "a/kv/*".to_owned()];
    let settings = QuotaSettings { exempt, ..QuotaSettings::usual(&[]) };
    assert!(quotas.put(SETTINGS, &settings.encode()));
    assert_eq!(allowed_at(&quotas, inside("a/sys/health", 2)), 100);
    assert_eq!(allowed_at(&quotas, inside("a/kv/x", 2)), 100);
    assert_eq!(allowed_at(&quotas, inside("b/kv/x", 2)), 1);
}

#[test]
fn an_exemption_is_for_all_that_begins_with_it_and_an_empty_one_is_none() {
    let quotas = quotas();
    put(&quotas, "all", "", 1.0);
    let exempt = ["", "kv/open", "sys/health"].map(str::to_owned).to_vec();
    let settings = QuotaSettings { exempt, ..QuotaSettings::usual(&[]) };
    assert!(quotas.put(SETTINGS, &settings.encode()));
    assert_eq!(allowed(&quotas, "kv/open/x"), 100);
    assert_eq!(allowed(&quotas, "kv/open"), 100);
    assert_eq!(allowed_at(&quotas, inside("a/kv/open/x", 2)), 100);
    assert_eq!(allowed(&quotas, "kv/closed"), 1);
}

#[test]
fn a_role_has_an_allowance_of_its_own() {
    let quotas = quotas();
    let here = "10.0.0.1".parse().unwrap();
    put(&quotas, "logins", "auth/approle/", 3.0);
    put_for_role(&quotas, "web", "auth/approle/", "web", 2.0);
    put_for_role(&quotas, "db", "auth/approle/", "DB", 1.0);
    let allowed = |role: &str| {
        let take = |_: &i32| {
            let role_at = |mount: &str| (mount == "auth/approle/").then(|| role.to_owned());
            quotas
                .ask_of(at("auth/approle/login"), here, 5 * SECOND, Counting::Take, role_at)
                .is_ok()
        };
        (0..100).take_while(take).count()
    };
    assert_eq!((allowed("web"), allowed("db"), allowed("other")), (2, 1, 3));
    let web = quotas.spec("web").unwrap();
    assert_eq!(quotas.twin(&web), None);
    let again = RuleSpec { name: "again".to_owned(), ..web };
    assert_eq!(quotas.twin(&again).as_deref(), Some("web"));
}

#[test]
fn records_of_before_there_were_roles_are_read() {
    let quotas = quotas();
    let old = br#"{"path":"","rate":2,"interval":1,"block_interval":0}"#;
    assert!(quotas.put("quota/rate-limit/old", old));
    let spec = quotas.spec("old").unwrap();
    assert_eq!((spec.scope.role.as_str(), spec.scope.is_inheritable, spec.rate), ("", true, 2.0));
}

#[test]
fn the_nearest_rule_counts() {
    let quotas = quotas();
    put(&quotas, "all", "", 7.0);
    put(&quotas, "mount", "secret/", 5.0);
    put(&quotas, "prefix", "secret/data/*", 3.0);
    put(&quotas, "longer", "secret/data/a/*", 2.0);
    put(&quotas, "exact", "secret/data/a/b", 1.0);
    for (path, count) in [
        ("secret/data/a/b", 1),
        ("secret/data/a/c", 2),
        ("secret/data/d", 3),
        ("secret/metadata/d", 5),
        ("sys/mounts", 7),
        ("sys/health", 100),
    ] {
        assert_eq!(allowed(&quotas, path), count, "{path}");
    }
    quotas.remove("quota/rate-limit/all");
    assert_eq!(allowed(&quotas, "sys/mounts"), 100);
    assert_eq!(quotas.names(), ["exact", "longer", "mount", "prefix"]);
}

#[test]
fn exemptions_and_headers_are_settings() {
    let quotas = quotas();
    put(&quotas, "all", "", 0.5);
    let settings = QuotaSettings {
        sends_headers: true,
        audits_refusals: true,
        exempt: vec!["sys/mounts".to_owned()],
    };
    assert!(quotas.put(SETTINGS, &settings.encode()));
    assert_eq!(quotas.settings(), settings);
    assert_eq!(allowed(&quotas, "sys/mounts"), 100);
    let here = "10.0.0.1".parse().unwrap();
    let left = Allowance { limit: 1, left: 0, reset_secs: 1 };
    assert_eq!(quotas.ask_of(at("sys/health"), here, 0, Counting::Take, |_| None), Ok(Some(left)));
    let refused = quotas.ask_of(at("sys/health"), here, 1, Counting::Take, |_| None);
    let Err(Error::OverQuota(over)) = refused else { panic!("{refused:?}") };
    assert_eq!((over.limit, over.retry_after_secs, over.is_told), (1, 1, true));
    assert!(!quotas.put(SETTINGS, b"{}") && !quotas.put("quota/rate-limit/x", b"[]"));
}
