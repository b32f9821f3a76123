//! What ends by itself, what tidy deletes, and what the settings say.

use super::*;

#[test]
fn orders_end_by_themselves_and_the_store_comes_back_to_what_it_was() {
    let mut ca = Ca::new();
    let client = Client::new(&ca, "acme");
    client.order(&[("dns", "a.example.test")]);
    let (keys, kid) = (client.keys, client.kid);
    ca.at = NOW + 26 * 3600;
    ca.job("acme_expiry");
    let before = ca.records();
    assert_eq!(before, 3, "an account, its key, who keeps nonces: {:?}", ca.mount.names());
    let client = Client { ca: &ca, directory: "acme", keys, kid };
    let order = client.order(&[("dns", "ready.example.test")]);
    client.show_all(&order);
    client.issue("b.example.test");
    for number in 0..1000 {
        client.order(&[("dns", &format!("n{number}.example.test"))]);
    }
    assert_eq!(ca.mount.names_in("acme/order/"), 1002);
    // Nothing ends while it may still be finished, and told of.
    ca.job("acme_expiry");
    assert_eq!(ca.mount.names_in("acme/order/"), 1002);
    ca.at += 24 * 3600 + 3601;
    for _ in 0..3 {
        ca.job("acme_expiry");
    }
    assert_eq!(ca.mount.names_in("acme/order/"), 0);
    assert_eq!(ca.mount.names_in("acme/authz/"), 2, "what was shown is valid for days");
    ca.at += 15 * 24 * 3600;
    for _ in 0..3 {
        ca.job("acme_expiry");
    }
    assert_eq!(ca.records(), before, "{:?}", ca.mount.names());
}

#[test]
fn tidy_deletes_accounts_that_nothing_is_left_of() {
    let mut ca = Ca::new();
    ca.ask("config/acme", r#"{"max_ttl":"1h"}"#);
    let idle = Client::new(&ca, "acme");
    let busy = Client::new(&ca, "acme");
    let gone = Client::new(&ca, "acme");
    gone.post_to(&gone.kid, r#"{"status":"deactivated"}"#);
    let (idle, busy, gone) = (idle.kid, (busy.keys, busy.kid), gone.kid);
    ca.at = NOW + 30 * 24 * 3600 - 60;
    let busy = Client { ca: &ca, directory: "acme", keys: busy.0, kid: busy.1 };
    busy.order(&[("dns", "a.example.test")]);
    let busy = busy.kid;
    let tidy = |ca: &Ca| {
        ca.ask_accepted("tidy", r#"{"tidy_acme":true}"#);
        for _ in 0..5 {
            ca.job("tidy");
        }
        ca.mount.ask(ca.at, Read, "tidy-status", "").unwrap()
    };
    let status = tidy(&ca);
    assert_eq!(TestMount::text(&status, "acme_account_deleted_count"), "0", "within the buffer");
    assert_eq!(TestMount::text(&status, "total_acme_account_count"), "3");
    ca.at += 120;
    let status = tidy(&ca);
    assert_eq!(TestMount::text(&status, "acme_account_deleted_count"), "2", "{status:?}");
    let names = ca.mount.names();
    let has =
        |kid: &String| names.contains(&format!("acme/account/{}", kid.rsplit('/').next().unwrap()));
    assert_eq!((has(&idle), has(&busy), has(&gone)), (false, true, false));
}

#[test]
fn a_certificate_ends_by_the_time_that_the_settings_allow_or_sooner_by_its_role() {
    let ca = Ca::new();
    let client = Client::new(&ca, "roles/web/acme");
    let ends = |settings: &str, role: &str| {
        ca.ask("config/acme", settings);
        ca.ask("roles/web", &format!(
            r#"{{"allowed_domains":"example.test","allow_subdomains":true,"key_type":"any"{role}}}"#
        ));
        let der = client.issue("a.example.test");
        kallisto_pki::certificate::ParsedCertificate::from_der(&der).unwrap().not_after - ca.at
    };
    assert_eq!(ends(r#"{"max_ttl":"1h"}"#, r#","ttl":"2h""#), 3600);
    assert_eq!(ends(r#"{"max_ttl":"3h"}"#, r#","ttl":"2h""#), 7200);
    // A client cannot ask for less than its CA has left, so certificates end with it, unless it refuses that too.
    ca.ask(
        "issuers/generate/root/internal",
        r#"{"common_name":"R","key_type":"ec","ttl":"1h","issuer_name":"short"}"#,
    );
    ca.ask("config/issuers", r#"{"default":"short"}"#);
    assert_eq!(ends("{}", r#","ttl":"2h""#), 3600);
    ca.ask(
        "issuer/short",
        r#"{"issuer_name":"short","leaf_not_after_behavior":"always_enforce_err"}"#,
    );
    assert_eq!(ends(r#"{"max_ttl":"30m"}"#, r#","ttl":"2h""#), 1800);
    ca.ask("config/acme", r#"{"max_ttl":"3h"}"#);
    let order = client.order(&[("dns", "a.example.test")]);
    client.show_all(&order);
    let done = client.post_to(&order.get("finalize"), &csr(&[dns("a.example.test")], ""));
    assert_eq!(done.problem().0, "malformed");
}

impl Ca {
    fn ask_accepted(&self, path: &str, body: &str) {
        self.mount.ask(self.at, Update, path, body).unwrap();
    }
}

#[test]
fn settings_are_checked_when_they_are_written() {
    let ca = Ca::new();
    for (body, why) in [
        (r#"{"dns_resolver":"resolver.test"}"#, "DNS resolver"),
        (r#"{"dns_resolver":"10.0.0.1:x"}"#, "DNS resolver"),
        (r#"{"eab_policy":"sometimes"}"#, "eab_policy"),
        (r#"{"default_directory_policy":"role:"}"#, "default_directory_policy"),
        (r#"{"default_directory_policy":"allow"}"#, "default_directory_policy"),
        (r#"{"challenge_permitted_ip_ranges":"10.0.0.0/33"}"#, "challenge_permitted_ip_ranges"),
        (r#"{"challenge_excluded_ip_ranges":["x"]}"#, "challenge_excluded_ip_ranges"),
        (r#"{"max_ttl":"0"}"#, "max_ttl"),
        (r#"{"allowed_roles":["a"],"default_directory_policy":"role:b"}"#, "allowed_roles"),
        (r#"{"allowed_roles":["A"],"default_directory_policy":"role:a"}"#, "allowed_roles"),
        // What lets nobody have a certificate.
        (r#"{"allowed_roles":[]}"#, "allowed_roles must take a non-zero length value"),
        (r#"{"allowed_roles":""}"#, "allowed_roles must take a non-zero length value"),
        (r#"{"allowed_issuers":[]}"#, "allowed_issuers must take a non-zero length value"),
        (r#"{"allowed_roles":["web","none"]}"#, "allowed_role none is not a valid acme role"),
        (r#"{"allowed_roles":["web","*"]}"#, "cannot use '*' as role name at index 1"),
        (r#"{"allowed_issuers":["*","default"]}"#, "cannot use '*' as issuer name at index 0"),
        (r#"{"allowed_issuers":["none"]}"#, "unable to find PKI issuer for reference: none"),
        (
            r#"{"default_directory_policy":"role:none"}"#,
            "default directory policy role none is not a valid ACME role: role does not exist",
        ),
        (
            r#"{"enabled":false,"default_directory_policy":"role:none","allowed_roles":["none"]}"#,
            "role none",
        ),
    ] {
        let refused = ca.mount.ask(NOW, Update, "config/acme", body);
        let Err(Error::Invalid(text)) = refused else { panic!("{body}: {refused:?}") };
        assert!(text.contains(why), "{body}: {text}");
    }
    // Policies of directories.
    let directory = |path: &str| ca.answer(path, b"").code;
    assert_eq!(directory("acme/directory"), 200);
    assert_eq!(directory("issuer/default/roles/web/acme/directory"), 200);
    assert_eq!(directory("roles/none/acme/directory"), 400);
    assert_eq!(directory("issuer/none/acme/directory"), 400);
    ca.ask("roles/other", r#"{"allow_any_name":true,"key_type":"any"}"#);
    ca.ask("config/acme", r#"{"default_directory_policy":"forbid","allowed_roles":["other"]}"#);
    assert_eq!(directory("acme/directory"), 401);
    assert_eq!(directory("roles/web/acme/directory"), 401);
    ca.ask("config/acme", r#"{"default_directory_policy":"role:web","allowed_roles":["web"]}"#);
    assert_eq!(directory("acme/directory"), 200);
    let client = Client::new(&ca, "acme");
    assert_eq!(client.order(&[("dns", "a.example.com")]).problem().0, "rejectedIdentifier");
    ca.ask(
        "issuers/generate/root/internal",
        r#"{"common_name":"O","issuer_name":"other","key_type":"ec"}"#,
    );
    ca.ask("config/acme", r#"{"allowed_issuers":["other"]}"#);
    assert_eq!(directory("acme/directory"), 401);
}

/// What is there when the settings are written may go later. Other settings can be changed all the same, but for turning it on.
#[test]
fn names_in_the_settings_are_checked_when_they_are_given_or_it_is_turned_on() {
    let ca = Ca::new();
    ca.ask("config/acme", r#"{"default_directory_policy":"role:web","allowed_roles":["web"]}"#);
    ca.mount.ask(NOW, Delete, "roles/web", "").unwrap();
    for body in [r#"{"max_ttl":"1h"}"#, r#"{"enabled":false}"#, r#"{"allowed_issuers":"default"}"#]
    {
        ca.ask("config/acme", body);
    }
    let refused = ca.mount.ask(NOW, Update, "config/acme", r#"{"enabled":true}"#);
    assert!(refused.unwrap_err().to_string().contains("role does not exist"));
    ca.ask(
        "config/acme",
        r#"{"enabled":true,"default_directory_policy":"forbid","allowed_roles":"*"}"#,
    );
}

/// Version 0.2.0 compared names of roles without case: what it stored is read, and said to be of other letters.
#[test]
fn settings_that_name_a_role_in_other_letters_are_read_and_warned_of() {
    let ca = Ca::new();
    let warnings = |operation, body: &[u8]| {
        let answer = ca.mount.answer(ca.at, operation, "config/acme", body).unwrap();
        let Response::Logical(logical) = answer else { panic!("{answer:?}") };
        logical.warnings
    };
    assert_eq!(warnings(Read, b""), [""; 0]);
    let mut stored = ca.mount.record("config/acme").unwrap();
    stored.insert("allowed_roles".to_owned(), Json::strings(["WEB".to_owned()]));
    stored.insert("default_directory_policy".to_owned(), "role:web".into());
    ca.mount.put("config/acme", &Json::Object(stored).to_text());
    let warning = "Names of roles are case-sensitive: WEB is not the role web, which exists";
    assert_eq!(warnings(Read, b""), [warning]);
    let directory = |path: &str| ca.answer(path, b"").code;
    assert_eq!(directory("acme/directory"), 401);
    assert_eq!(directory("roles/web/acme/directory"), 401);
    assert_eq!(directory("roles/WEB/acme/directory"), 400);
    assert_eq!(warnings(Update, br#"{"allowed_roles":["web"]}"#), [""; 0]);
    assert_eq!(directory("acme/directory"), 200);
    assert_eq!(directory("roles/web/acme/directory"), 200);
}

#[test]
fn what_a_certificate_is_for_is_the_roles_to_say_only_where_the_settings_let_it() {
    let ca = Ca::new();
    let usages = |client: &Client<'_>| {
        let der = client.issue("a.example.test");
        let text = data_encoding::HEXLOWER.encode(&der);
        // id-kp-serverAuth and id-kp-clientAuth, as DER has them.
        (text.contains("2b06010505070301"), text.contains("2b06010505070302"))
    };
    let client = Client::new(&ca, "roles/web/acme");
    assert_eq!(usages(&client), (true, false));
    ca.ask("config/acme", r#"{"allow_role_ext_key_usage":true}"#);
    assert_eq!(usages(&client), (true, true));
}
