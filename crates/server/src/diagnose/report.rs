//! What came of a diagnosis: a tree of checks, for people or as JSON.
//!
//! The JSON has the members of OpenBao's, so that what reads the one reads the other.

use std::borrow::Cow;
use std::fmt::{Display, Write};

use clap::ValueEnum;
use jiff::Timestamp;

use kallisto_command::json::{Json, Map};
use kallisto_command::outcome::Outcome;

/// How a report is printed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(super) enum ReportForm {
    /// Indented lines.
    Table,
    Json,
}

/// How a check went; the worse is the greater.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum CheckStatus {
    Skipped,
    Ok,
    Warn,
    Fail,
}

/// One thing that was tried, or several under one heading.
#[derive(Debug)]
pub(super) struct DiagnoseCheck {
    name: Cow<'static, str>,
    status: CheckStatus,
    message: String,
    warnings: Vec<String>,
    children: Vec<Self>,
}

impl CheckStatus {
    /// The exit code of a program that found this.
    pub(super) const fn exit_code(self) -> u8 {
        match self {
            Self::Skipped | Self::Ok => 0,
            Self::Fail => 1,
            Self::Warn => 2,
        }
    }

    const fn word(self) -> &'static str {
        match self {
            Self::Skipped => "skipped",
            Self::Ok => "success",
            Self::Warn => "warning",
            Self::Fail => "failure",
        }
    }

    const fn json_word(self) -> &'static str {
        match self {
            Self::Skipped => "skipped",
            Self::Ok => "ok",
            Self::Warn => "warn",
            Self::Fail => "fail",
        }
    }
}

impl DiagnoseCheck {
    fn new(name: impl Into<Cow<'static, str>>, status: CheckStatus, message: impl Display) -> Self {
        let (warnings, children) = (Vec::new(), Vec::new());
        Self { name: name.into(), status, message: message.to_string(), warnings, children }
    }

    pub(super) fn ok(name: impl Into<Cow<'static, str>>, message: impl Display) -> Self {
        Self::new(name, CheckStatus::Ok, message)
    }

    pub(super) fn skipped(name: impl Into<Cow<'static, str>>, why: impl Display) -> Self {
        Self::new(name, CheckStatus::Skipped, why)
    }

    pub(super) fn warn(name: impl Into<Cow<'static, str>>, message: impl Display) -> Self {
        Self::new(name, CheckStatus::Warn, message)
    }

    pub(super) fn fail(name: impl Into<Cow<'static, str>>, message: impl Display) -> Self {
        Self::new(name, CheckStatus::Fail, message)
    }

    /// A check that is good but for these sentences.
    pub(super) fn warned(name: &'static str, warnings: Vec<String>) -> Self {
        let status = if warnings.is_empty() { CheckStatus::Ok } else { CheckStatus::Warn };
        Self { warnings, ..Self::new(name, status, "") }
    }

    /// A check that failed for all of these reasons.
    pub(super) fn failed(name: &'static str, reasons: &str) -> Self {
        let mut lines = reasons.lines().map(str::to_owned);
        let first = lines.next().unwrap_or_default();
        Self { warnings: lines.collect(), ..Self::fail(name, first) }
    }

    /// The same with one more sentence.
    pub(super) fn and_said(mut self, sentence: String) -> Self {
        self.warnings.push(sentence);
        self
    }

    /// A heading, which is as good as the worst below it.
    pub(super) fn of(name: &'static str, children: Vec<Self>) -> Self {
        let status = children.iter().map(Self::status).max().unwrap_or(CheckStatus::Skipped);
        Self { children, ..Self::new(name, status, "") }
    }

    pub(super) const fn status(&self) -> CheckStatus {
        self.status
    }

    fn write_lines(&self, depth: usize, out: &mut String) {
        let indent = "  ".repeat(depth);
        let sentences = [&self.message].into_iter().chain(&self.warnings);
        let mut sentences = sentences.filter(|text| !text.is_empty());
        let first = sentences.next().map(|text| format!(": {text}")).unwrap_or_default();
        // Writing to a string cannot fail.
        let _ = writeln!(out, "{indent}[ {} ] {}{first}", self.status.word(), self.name);
        for sentence in sentences {
            let _ = writeln!(out, "{indent}    {sentence}");
        }
        self.children.iter().for_each(|child| child.write_lines(depth + 1, out));
    }

    fn to_json(&self, now: Timestamp) -> Json {
        let mut map = Map::from([
            ("time".to_owned(), now.to_string().into()),
            ("name".to_owned(), self.name.as_ref().into()),
            ("status".to_owned(), self.status.json_word().into()),
        ]);
        if !self.message.is_empty() {
            map.insert("message".to_owned(), self.message.as_str().into());
        }
        if !self.warnings.is_empty() {
            map.insert("warnings".to_owned(), Json::strings(self.warnings.clone()));
        }
        if !self.children.is_empty() {
            let children = self.children.iter().map(|child| child.to_json(now));
            map.insert("children".to_owned(), Json::Array(children.collect()));
        }
        map.into()
    }
}

impl ReportForm {
    /// A report on standard output.
    pub(super) fn print(self, all: &DiagnoseCheck, now: Timestamp) -> Outcome {
        match self {
            Self::Table => {
                let mut text = String::new();
                all.write_lines(0, &mut text);
                Outcome::print(text)
            }
            Self::Json => {
                let mut text = all.to_json(now).to_text();
                text.push(b'\n');
                Outcome::print(text)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tree() -> DiagnoseCheck {
        let both = vec!["one".to_owned(), "two".to_owned()];
        let inner = DiagnoseCheck::of(
            "Inner",
            vec![DiagnoseCheck::ok("Good", "fine"), DiagnoseCheck::warned("Odd", both)],
        );
        DiagnoseCheck::of("All", vec![DiagnoseCheck::skipped("Left", "not asked"), inner])
    }

    #[test]
    fn a_heading_is_as_good_as_the_worst_below_it() {
        assert_eq!(tree().status(), CheckStatus::Warn);
        let worse = DiagnoseCheck::of("Top", vec![tree(), DiagnoseCheck::fail("Bad", "broken")]);
        assert_eq!((worse.status(), worse.status().exit_code()), (CheckStatus::Fail, 1));
        let left = DiagnoseCheck::of("Top", vec![DiagnoseCheck::skipped("Left", "")]);
        assert_eq!(left.status().exit_code(), 0);
    }

    #[test]
    fn a_report_is_lines_or_json() {
        let now = Timestamp::UNIX_EPOCH;
        let lines = ReportForm::Table.print(&tree(), now);
        let expected = "[ warning ] All\n  [ skipped ] Left: not asked\n  [ warning ] Inner\n    \
                        [ success ] Good: fine\n    [ warning ] Odd: one\n        two\n";
        assert_eq!(String::from_utf8_lossy(&lines.stdout), expected);
        let json = ReportForm::Json.print(&tree(), now);
        let map = kallisto_command::json::parse_object(&json.stdout).unwrap();
        assert_eq!(map["status"].as_str(), Some("warn"));
        let Json::Array(children) = &map["children"] else { panic!("no children") };
        let left = children[0].as_object().unwrap();
        assert_eq!(left["message"].as_str(), Some("not asked"));
        assert_eq!(left["time"].as_str(), Some("1970-01-01T00:00:00Z"));
    }
}
