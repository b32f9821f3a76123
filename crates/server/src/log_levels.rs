//! The levels of the log: what the configuration says, and what `sys/loggers` or SIGHUP make of it while the server runs.
//!
//! [`LinuxHost`](super::host::LinuxHost) asks and sets them for `core`; a configuration that is read anew sets all of them, if it says another level.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use kallisto_core::LogLevel;
use tracing_subscriber::Registry;
use tracing_subscriber::filter::{LevelFilter, Targets};
use tracing_subscriber::reload;

/// The loggers: names on the wire and the crates behind them.
const LOGGERS: [(&str, &str); 6] = [
    ("audit", "kallisto_audit"),
    ("core", "kallisto_core"),
    ("listener", "kallisto_listener"),
    ("lsm", "kallisto_lsm"),
    ("server", "kallisto"),
    ("store", "kallisto_store"),
];
/// Libraries whose events tell operators nothing below errors, and strangers cause them, one or more with each message.
const CAPPED: [&str; 4] = ["h2", "hyper", "hyper_util", "rustls"];

/// What changes a filter of the log that is in use.
type FilterHandle = reload::Handle<Targets, Registry>;

/// The levels, and the filter that follows them.
pub(super) struct LogLevels {
    now: Mutex<LevelsNow>,
    filter: Option<FilterHandle>,
}

struct LevelsNow {
    /// What the configuration says.
    configured: LevelFilter,
    /// What all have that are no logger of ours.
    others: LevelFilter,
    loggers: BTreeMap<&'static str, LevelFilter>,
}

impl LogLevels {
    /// A log that began at `configured` and is changed through `filter`.
    pub(super) fn new(configured: LevelFilter, filter: Option<FilterHandle>) -> Self {
        let loggers = LOGGERS.iter().map(|(name, _)| (*name, configured)).collect();
        let now = LevelsNow { configured, others: configured, loggers };
        Self { now: Mutex::new(now), filter }
    }

    fn now(&self) -> MutexGuard<'_, LevelsNow> {
        self.now.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The loggers with their levels.
    pub(super) fn all(&self) -> Vec<(String, LogLevel)> {
        let now = self.now();
        now.loggers.iter().map(|(name, level)| ((*name).to_owned(), of_filter(*level))).collect()
    }

    /// Sets a logger, or all, to a level, or to what the configuration says; false for a logger that there is not.
    pub(super) fn set(&self, logger: Option<&str>, level: Option<LogLevel>) -> bool {
        let mut now = self.now();
        let wanted = level.map_or(now.configured, to_filter);
        match logger {
            None => now.set_all(wanted),
            Some(name) => match now.loggers.get_mut(name) {
                Some(level) => *level = wanted,
                None => return false,
            },
        }
        self.apply(&now);
        true
    }

    /// Takes over what a configuration says that was read anew, and returns what it said before if that was another level. Levels that were set while
    /// the server ran stay where the configuration did not change.
    pub(super) fn configure(&self, level: LevelFilter) -> Option<LevelFilter> {
        let mut now = self.now();
        let before = std::mem::replace(&mut now.configured, level);
        if before == level {
            return None;
        }
        now.set_all(level);
        self.apply(&now);
        Some(before)
    }

    fn apply(&self, now: &LevelsNow) {
        let rooms = LOGGERS
            .iter()
            .map(|(name, room)| (*room, now.loggers.get(name).copied().unwrap_or(now.others)));
        let filter = targets(now.others).with_targets(rooms);
        if let Some(handle) = &self.filter
            && let Err(error) = handle.reload(filter)
        {
            tracing::error!(%error, "the level of the log stays as it is");
        }
    }
}

impl Default for LogLevels {
    fn default() -> Self {
        Self::new(LevelFilter::INFO, None)
    }
}

impl LevelsNow {
    fn set_all(&mut self, level: LevelFilter) {
        self.others = level;
        self.loggers.values_mut().for_each(|of| *of = level);
    }
}

/// What is let through at a level; libraries say errors only.
pub(super) fn targets(level: LevelFilter) -> Targets {
    let of_libraries = level.min(LevelFilter::ERROR);
    Targets::new().with_default(level).with_targets(CAPPED.map(|name| (name, of_libraries)))
}

/// The logger of an event: that of its crate, or the crate itself.
pub(super) fn logger_of(target: &str) -> &str {
    let room = target.split("::").next().unwrap_or(target);
    LOGGERS.iter().find(|(_, of)| *of == room).map_or(room, |(name, _)| name)
}

pub(super) const fn to_filter(level: LogLevel) -> LevelFilter {
    match level {
        LogLevel::Trace => LevelFilter::TRACE,
        LogLevel::Debug => LevelFilter::DEBUG,
        LogLevel::Info => LevelFilter::INFO,
        LogLevel::Warn => LevelFilter::WARN,
        LogLevel::Error => LevelFilter::ERROR,
    }
}

fn of_filter(level: LevelFilter) -> LogLevel {
    match level {
        LevelFilter::TRACE => LogLevel::Trace,
        LevelFilter::DEBUG => LogLevel::Debug,
        LevelFilter::INFO => LogLevel::Info,
        LevelFilter::WARN => LogLevel::Warn,
        // A log that is off lets through less than any level has a name for.
        _ => LogLevel::Error,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn level(levels: &LogLevels, name: &str) -> LogLevel {
        levels.all().into_iter().find(|(own, _)| own == name).unwrap().1
    }

    /// Any stranger causes as many as it likes, by resetting streams or by malformed handshakes.
    #[test]
    fn what_libraries_warn_of_is_not_logged() {
        for level in [LevelFilter::TRACE, LevelFilter::WARN, LevelFilter::ERROR] {
            for name in CAPPED {
                assert!(!targets(level).would_enable(name, &tracing::Level::WARN), "{name}");
                assert!(targets(level).would_enable(name, &tracing::Level::ERROR), "{name}");
            }
        }
        assert!(targets(LevelFilter::INFO).would_enable("kallisto_core", &tracing::Level::INFO));
    }

    #[test]
    fn loggers_are_set_by_name_or_together() {
        let levels = LogLevels::new(LevelFilter::WARN, None);
        assert!(levels.set(Some("core"), Some(LogLevel::Debug)));
        let two = || (level(&levels, "core"), level(&levels, "store"));
        assert_eq!(two(), (LogLevel::Debug, LogLevel::Warn));
        assert!(levels.set(None, Some(LogLevel::Error)));
        assert_eq!(two(), (LogLevel::Error, LogLevel::Error));
        assert!(levels.set(Some("core"), None));
        assert_eq!(two(), (LogLevel::Warn, LogLevel::Error));
        assert!(!levels.set(Some("bogus"), None));
    }

    #[test]
    fn a_configuration_sets_all_of_them_when_it_says_another_level() {
        let levels = LogLevels::new(LevelFilter::WARN, None);
        levels.set(Some("core"), Some(LogLevel::Debug));
        assert_eq!(levels.configure(LevelFilter::WARN), None);
        assert_eq!(level(&levels, "core"), LogLevel::Debug);
        assert_eq!(levels.configure(LevelFilter::ERROR), Some(LevelFilter::WARN));
        assert_eq!(level(&levels, "core"), LogLevel::Error);
        levels.set(None, Some(LogLevel::Trace));
        levels.set(None, None);
        assert_eq!(level(&levels, "core"), LogLevel::Error);
    }
}
