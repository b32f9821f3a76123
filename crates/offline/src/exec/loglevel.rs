//! What is logged to standard error, changeable while the program runs.
//!
//! Events name verbs, counts and times, never a path, a key or a value.

use std::io::IsTerminal;

use clap::ValueEnum;
use kallisto_command::config::{Environment, log_colours_wanted};
use tracing_subscriber::Registry;
use tracing_subscriber::filter::LevelFilter;
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::reload;
use tracing_subscriber::util::SubscriberInitExt;

/// How much is logged.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(super) enum ExecLogLevel {
    /// Nothing
    Off,
    /// What needs a person
    Error,
    /// What heals itself
    Warn,
    /// Changes of state
    Info,
    /// Every command and its time
    Debug,
}

impl ExecLogLevel {
    const fn filter(self) -> LevelFilter {
        match self {
            Self::Off => LevelFilter::OFF,
            Self::Error => LevelFilter::ERROR,
            Self::Warn => LevelFilter::WARN,
            Self::Info => LevelFilter::INFO,
            Self::Debug => LevelFilter::DEBUG,
        }
    }

    /// As it is typed.
    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::Off => "off",
            Self::Error => "error",
            Self::Warn => "warn",
            Self::Info => "info",
            Self::Debug => "debug",
        }
    }
}

/// The running logger.
pub(super) struct Logging {
    level: ExecLogLevel,
    filter: reload::Handle<LevelFilter, Registry>,
}

/// Starts logging.
pub(super) fn start(level: ExecLogLevel) -> Logging {
    let (layer, filter) = reload::Layer::new(level.filter());
    let is_terminal = std::io::stderr().is_terminal();
    let colour = log_colours_wanted(is_terminal, &Environment::process());
    let text = tracing_subscriber::fmt::layer().with_writer(std::io::stderr).with_target(false);
    let text = text.with_ansi(colour);
    // A process that logs already keeps doing it in its own way.
    let _ = tracing_subscriber::registry().with(layer).with(text).try_init();
    Logging { level, filter }
}

impl Logging {
    /// The level there is.
    pub(super) const fn level(&self) -> ExecLogLevel {
        self.level
    }

    /// Changes the level.
    pub(super) fn set(&mut self, level: ExecLogLevel) {
        self.level = level;
        // The layer is gone only when nothing logs any more.
        let _ = self.filter.modify(|filter| *filter = level.filter());
    }
}
