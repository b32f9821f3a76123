//! Replays what was recorded of engines that make credentials at other servers. What those servers saw is looked at here: nothing stays there
//! once the leases have ended.

use crate::far_ends::running;
use crate::replay::{Judge, Known, Place, REFUSED, is_id, replay};

const KUBERNETES: &str = include_str!("../golden/kubernetes.json");
const DATABASE: &str = include_str!("../golden/database.json");
const LDAP: &str = include_str!("../golden/ldap.json");
const RABBITMQ: &str = include_str!("../golden/rabbitmq.json");

const PARSER: &str = "the words of a parser are its own";
const NAME: &str = "the recorded server says its own name in it, and misspells `account`";
const CHECKED: &str = "what cannot work is refused when it is written, not when it is used";
const LEASED: &str = "what is asked stays configured while there are leases that only it can end";
const WARNED: &str = "what does not work yet is taken with a warning, not in silence";
const WORDS: &str = "the error names the connection, and has no Go in it";
const READABLE: &str = "names are cut in their readable parts, and none ends in a dash";
const CALLER: &str = "a client's mistake is a 400 that says which, never a 500";
const NO_DATA: &str = "a login has no data: null, as every login here";

/// Every difference left in `kubernetes.json`.
const KUBERNETES_KNOWN: &[Known] =
    &[(7, &["/warnings/1"], NAME), (8, &["/warnings/0"], NAME), (10, &["/warnings/0"], NAME)];

/// Every difference left in `rabbitmq.json`.
const RABBITMQ_KNOWN: &[Known] = &[(4, &["/errors/0"], PARSER)];

#[test]
fn kubernetes_exchanges_are_answered_as_recorded() {
    let (server, cluster) = running();
    let before = cluster.paths();
    replay(&server, KUBERNETES, |_| true, KUBERNETES_KNOWN, &mut Credentials);
    assert_eq!(cluster.paths(), before);
}

#[test]
fn rabbitmq_exchanges_are_answered_as_recorded() {
    let (server, broker) = running();
    let before = broker.paths();
    replay(&server, RABBITMQ, |_| true, RABBITMQ_KNOWN, &mut Credentials);
    assert_eq!(broker.paths(), before);
}

/// Every difference left in `database.json`.
const DATABASE_KNOWN: &[Known] = &[
    (6, &["status", "/"], WARNED),
    (7, &["status", "/"], CHECKED),
    (17, &["status", "/"], WARNED),
    (32, &["/errors/0"], WORDS),
    (34, &["/errors/0"], WORDS),
    (56, &["/data/username"], READABLE),
    (63, &["status", "/"], WARNED),
    (66, &["status", "/"], LEASED),
];

/// Every difference left in `ldap.json`.
const LDAP_KNOWN: &[Known] = &[
    (2, &["status", "/"], CHECKED),
    (3, &["status", "/"], CHECKED),
    (4, REFUSED, CHECKED),
    (5, REFUSED, CHECKED),
    (6, REFUSED, CHECKED),
    (7, REFUSED, CHECKED),
    (17, &["/data"], NO_DATA),
    (19, &["/data"], NO_DATA),
    (20, &["/data"], NO_DATA),
    (21, &["/data"], NO_DATA),
    (22, &["/data"], NO_DATA),
    (26, &["/data"], NO_DATA),
    (27, &["/data"], NO_DATA),
    (29, &["/data"], NO_DATA),
    (32, &["/data"], NO_DATA),
    (34, &["/data"], NO_DATA),
    (36, &["/data"], NO_DATA),
    (38, &["/data"], NO_DATA),
    (65, &["status", "/errors/0"], CALLER),
    (75, &["status", "/"], LEASED),
];

#[test]
fn database_exchanges_are_answered_as_recorded() {
    let (server, _) = running();
    // What happens by the clock is the walk's, over real databases.
    replay(&server, DATABASE, |row| row.get("wait").is_none(), DATABASE_KNOWN, &mut Credentials);
}

#[test]
fn ldap_exchanges_are_answered_as_recorded() {
    let (server, _) = running();
    replay(&server, LDAP, |_| true, LDAP_KNOWN, &mut Credentials);
}

/// What knows names and lives of credentials.
struct Credentials;

impl Judge for Credentials {
    fn texts(&mut self, place: &Place<'_>, recorded: &str, ours: &str) -> Option<Vec<String>> {
        let is_random =
            |text: &str| text.len() == 24 && text.bytes().all(|it| it.is_ascii_alphanumeric());
        let is_time = |text: &str| text.parse::<jiff::Timestamp>().is_ok();
        let is_same = match place.name {
            "username" if recorded.starts_with(|c: char| c.is_ascii_alphabetic()) => {
                form(recorded) == form(ours)
            }
            "service_account_name" => form(recorded) == form(ours),
            "accessor" => is_random(ours),
            "last_vault_rotation" => is_time(recorded) && is_time(ours),
            "distinguished_names" => form(recorded) == form(ours),
            "keys" if is_random(recorded) => is_random(ours),
            _ => return None,
        };
        Some(if is_same { Vec::new() } else { vec![place.pointer.to_owned()] })
    }
}

/// The form of a name: without that of the token that asked, and each part that is drawn as its length.
fn form(name: &str) -> String {
    let mut name = name.to_owned();
    for token in ["token", "TOKEN", "root", "ROOT"] {
        name = name.replace(token, "");
    }
    if is_id(name.trim_start_matches('-')) {
        return "an id".to_owned();
    }
    let parts =
        name.split(['-', '_', ',']).map(|part| match part.len() > 5 && !part.contains('=') {
            true => part.len().to_string(),
            false => part.to_owned(),
        });
    parts.collect::<Vec<_>>().join("-")
}
