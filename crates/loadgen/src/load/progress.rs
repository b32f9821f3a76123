//! The progress bar of a run, for whoever watches at a terminal.

use std::time::Duration;

use indicatif::{ProgressBar, ProgressStyle};

use super::plan::{LoadPace, LoadPlan};

/// Whether somebody watches.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum WatchedBy {
    ByAPerson,
    ByNobody,
}

/// The bar.
pub(super) struct LoadBar(ProgressBar);

impl LoadBar {
    /// A bar that counts to `length`.
    pub(super) fn new(watched: WatchedBy, what: &'static str, length: u64) -> Self {
        if watched == WatchedBy::ByNobody {
            return Self(ProgressBar::hidden());
        }
        let bar = ProgressBar::new(length).with_message(what);
        match ProgressStyle::with_template("{msg} [{wide_bar}] {prefix} {elapsed}") {
            Ok(style) => Self(bar.with_style(style)),
            Err(_) => Self(bar),
        }
    }

    /// How long the bar of a run is: its time in milliseconds, or its keys.
    pub(super) fn length(plan: &LoadPlan) -> u64 {
        match plan.pace {
            LoadPace::EachOnce => plan.keys,
            _ => u64::try_from((plan.warm_up + plan.duration).as_millis()).unwrap_or(u64::MAX),
        }
    }

    /// Shows how far a run is after `elapsed`, with so many answers.
    pub(super) fn show(&self, plan: &LoadPlan, elapsed: Duration, answered: u64) {
        let at = match plan.pace {
            LoadPace::EachOnce => answered,
            _ => u64::try_from(elapsed.as_millis()).unwrap_or(u64::MAX),
        };
        self.show_count(at, answered);
    }

    pub(super) fn show_count(&self, at: u64, answered: u64) {
        if !self.0.is_hidden() {
            self.0.set_prefix(format!("{answered} answered"));
            self.0.set_position(at);
        }
    }

    pub(super) fn finish(&self) {
        self.0.finish_and_clear();
    }
}
