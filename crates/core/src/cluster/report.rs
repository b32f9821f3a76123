//! How one member is, as it says itself to another that asks over the cluster port.
//!
//! The port answers members only, so a report needs no token; whoever asked for all of them showed one to the server that gathers. It says
//! nothing of what is stored, and a sealed server gives it too.
//!
//! ```text
//! report := JSON {"sealed", "version", "uptime", "term", "applied", "clock_ms", "memory", "disk": {"free", "total"}}
//! ```
//!
//! What a server does not know it leaves out, and what one does not know it passes over: versions may differ.

use jiff::Timestamp;

use crate::api::json::{self, Json, Map};
use crate::state::Core;

/// Most bytes of a report that are read.
const REPORT_BYTES_MAX: usize = 16 << 10;

/// What a member says of itself.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct MemberStatus {
    pub(crate) sealed: Option<bool>,
    pub(crate) version: Option<String>,
    /// Seconds since its process began.
    pub(crate) uptime: Option<u64>,
    pub(crate) term: Option<u64>,
    pub(crate) applied: Option<u64>,
    /// Its clock, in milliseconds since 1970.
    pub(crate) clock_ms: Option<i64>,
    /// Memory of its process, in bytes.
    pub(crate) memory: Option<u64>,
    /// Free and all bytes of the disk under its storage.
    pub(crate) disk: Option<(u64, u64)>,
}

impl Core {
    /// How this server is, for another member.
    pub fn member_report(&self, now: Timestamp) -> Vec<u8> {
        Json::from(own(self, now).to_map()).to_text().to_vec()
    }
}

/// How this server is.
pub(crate) fn own(core: &Core, now: Timestamp) -> MemberStatus {
    let process = core.host.as_ref().and_then(|host| host.process());
    let disk = core.host.as_ref().and_then(|host| host.disk());
    let since = |start: Timestamp| u64::try_from(now.as_second() - start.as_second()).unwrap_or(0);
    MemberStatus {
        sealed: Some(core.is_sealed()),
        version: Some(core.info.release.clone()),
        uptime: process.map(|process| since(process.started)),
        term: core.store.replicated().map(|cluster| cluster.leadership().term),
        applied: Some(core.store.position().0),
        clock_ms: Some(now.as_millisecond()),
        memory: process.map(|process| process.resident_bytes),
        disk: disk.map(|disk| (disk.free_bytes, disk.total_bytes)),
    }
}

impl MemberStatus {
    fn to_map(&self) -> Map {
        let mut map = Map::new();
        let mut put = |name: &str, value: Option<Json>| {
            if let Some(value) = value {
                map.insert(name.to_owned(), value);
            }
        };
        put("sealed", self.sealed.map(Json::from));
        put("version", self.version.as_deref().map(Json::from));
        put("uptime", self.uptime.map(Json::from));
        put("term", self.term.map(Json::from));
        put("applied", self.applied.map(Json::from));
        put("clock_ms", self.clock_ms.map(Json::from));
        put("memory", self.memory.map(Json::from));
        put("disk", self.disk.map(disk));
        map
    }

    /// What another member said; `None` for what is no report.
    pub(crate) fn parse(bytes: &[u8]) -> Option<Self> {
        if bytes.len() > REPORT_BYTES_MAX {
            return None;
        }
        let map = json::parse_object(bytes).ok()?;
        let whole = |map: &Map, name: &str| match map.get(name) {
            Some(Json::Number(text)) => text.parse::<i64>().ok(),
            _ => None,
        };
        let count =
            |map: &Map, name: &str| whole(map, name).and_then(|number| u64::try_from(number).ok());
        let disk = map.get("disk").and_then(Json::as_object);
        Some(Self {
            sealed: match map.get("sealed") {
                Some(Json::Bool(sealed)) => Some(*sealed),
                _ => None,
            },
            version: map.get("version").and_then(Json::as_str).map(str::to_owned),
            uptime: count(&map, "uptime"),
            term: count(&map, "term"),
            applied: count(&map, "applied"),
            clock_ms: whole(&map, "clock_ms"),
            memory: count(&map, "memory"),
            disk: disk.and_then(|disk| count(disk, "free").zip(count(disk, "total"))),
        })
    }
}

/// Free and all bytes as they are shown.
pub(crate) fn disk((free, total): (u64, u64)) -> Json {
    Json::object([("free", free.into()), ("total", total.into())])
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use kallisto_store::MemoryStore;

    use super::*;
    use crate::platform::server_info::ServerInfo;

    #[test]
    fn a_report_comes_back_and_what_is_unknown_is_passed_over() {
        let report = MemberStatus {
            sealed: Some(true),
            version: Some("1".to_owned()),
            clock_ms: Some(-5),
            disk: Some((1, 2)),
            ..MemberStatus::default()
        };
        let text = Json::from(report.to_map()).to_text();
        assert_eq!(MemberStatus::parse(&text), Some(report));
        let strange = br#"{"new":1,"sealed":"yes","memory":-1,"disk":{"free":1}}"#;
        assert_eq!(MemberStatus::parse(strange), Some(MemberStatus::default()));
        assert_eq!(MemberStatus::parse(b"\x01\x90\x01\x00no"), None);
        assert_eq!(MemberStatus::parse(&vec![b' '; REPORT_BYTES_MAX + 1]), None);
    }

    /// Clients gate their features on the version of the API, which all members share whatever they run.
    #[test]
    fn a_member_says_the_version_of_its_own() {
        let info = ServerInfo {
            version: "1.18.3".to_owned(),
            release: "0.9.9".to_owned(),
            ..ServerInfo::default()
        };
        let core = Core::new(Arc::new(MemoryStore::new()), info);
        let said = MemberStatus::parse(&core.member_report(Timestamp::UNIX_EPOCH)).unwrap();
        assert_eq!(said.version.as_deref(), Some("0.9.9"));
    }
}
