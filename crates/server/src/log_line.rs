//! A line of the log: an event in the form of people, or as an object with the keys of OpenBao's lines.
//!
//! Who follows the log ([`super::log_subscribers`]) gets both forms; standard error gets the second one from here, with
//! `log_format = "json"`.

use std::borrow::Cow;
use std::fmt::{Debug, Write};
use std::io::{Stderr, Write as _};

use jiff::Timestamp;
use kallisto_core::{Json, LogForm, Map};
use kallisto_listener::{SystemClock, WallClock};
use tracing::field::{Field, Visit};
use tracing::{Event, Level, Subscriber};
use tracing_subscriber::Layer;
use tracing_subscriber::filter::LevelFilter;
use tracing_subscriber::layer::Context;

use super::log_levels;

/// Writes every event to standard error, as one JSON object a line.
pub(super) struct JsonLines;

impl<S: Subscriber> Layer<S> for JsonLines {
    fn on_event(&self, event: &Event<'_>, _context: Context<'_, S>) {
        let text = LogLine::of(event, SystemClock.now()).to_text(LogForm::Json);
        // One call, so that lines stay whole. There is no other place to say that it failed.
        let _ = std::io::stderr().lock().write_all(text.as_bytes());
    }
}

/// Writes events to standard error, each as one line whatever its fields say: they may have what another server answered.
pub(super) struct OneLine(Stderr);

impl OneLine {
    /// What one event is written to, all of it at once.
    pub(super) fn of_errors() -> Self {
        Self(std::io::stderr())
    }
}

impl std::io::Write for OneLine {
    fn write(&mut self, event: &[u8]) -> std::io::Result<usize> {
        self.0.lock().write_all(&on_one_line(event))?;
        Ok(event.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        self.0.flush()
    }
}

/// The event with its ends of lines spelled, but for the last one.
fn on_one_line(event: &[u8]) -> Cow<'_, [u8]> {
    let line = event.strip_suffix(b"\n").unwrap_or(event);
    if !line.iter().any(|byte| matches!(byte, b'\n' | b'\r')) {
        return Cow::Borrowed(event);
    }
    let mut spelled = Vec::with_capacity(event.len() + 16);
    for byte in line {
        match byte {
            b'\n' => spelled.extend_from_slice(b"\\n"),
            b'\r' => spelled.extend_from_slice(b"\\r"),
            other => spelled.push(*other),
        }
    }
    spelled.extend_from_slice(&event[line.len()..]);
    Cow::Owned(spelled)
}

/// One event.
pub(super) struct LogLine {
    at: Timestamp,
    /// How urgent it is.
    pub(super) level: LevelFilter,
    module: String,
    message: String,
    fields: Vec<(&'static str, Json)>,
}

impl LogLine {
    /// What an event says.
    pub(super) fn of(event: &Event<'_>, at: Timestamp) -> Self {
        let metadata = event.metadata();
        let mut line = Self::new(at, *metadata.level(), log_levels::logger_of(metadata.target()));
        event.record(&mut line);
        line
    }

    /// That lines are missing.
    pub(super) fn about_dropped(at: Timestamp) -> Self {
        let line = Self::new(at, Level::WARN, "monitor");
        Self { message: "lines were dropped: they are read too slowly".to_owned(), ..line }
    }

    fn new(at: Timestamp, level: Level, module: &str) -> Self {
        let (module, message) = (module.to_owned(), String::new());
        Self { at, level: LevelFilter::from_level(level), module, message, fields: Vec::new() }
    }

    /// Adds a field.
    pub(super) fn put(&mut self, name: &'static str, value: Json) {
        match (name, value) {
            ("message", Json::String(text)) => self.message = text,
            (name, value) => self.fields.push((name, value)),
        }
    }

    /// The line, with its end.
    pub(super) fn to_text(&self, form: LogForm) -> String {
        match form {
            LogForm::Standard => self.to_standard(),
            LogForm::Json => self.to_json(),
        }
    }

    fn level_name(&self) -> &'static str {
        self.level.into_level().map_or("off", |level| level.as_str())
    }

    fn to_standard(&self) -> String {
        let at = self.at.strftime("%Y-%m-%dT%H:%M:%S.%3fZ");
        let level = format!("[{}]", self.level_name());
        let mut text = format!("{at} {level:<7} {}: {}", self.module, self.message);
        for (at, (name, value)) in self.fields.iter().enumerate() {
            text.push_str(if at == 0 { ": " } else { " " });
            let _ = write!(text, "{name}={}", plain(value));
        }
        text.push('\n');
        text
    }

    fn to_json(&self) -> String {
        let given = self.fields.iter().map(|(name, value)| ((*name).to_owned(), value.clone()));
        let mut map: Map = given.collect();
        map.insert("@level".into(), self.level_name().to_ascii_lowercase().into());
        map.insert("@message".into(), self.message.as_str().into());
        map.insert("@module".into(), self.module.as_str().into());
        let at = self.at.strftime("%Y-%m-%dT%H:%M:%S.%6fZ").to_string();
        map.insert("@timestamp".into(), at.into());
        let mut text = String::from_utf8_lossy(&Json::Object(map).to_text()).into_owned();
        text.push('\n');
        text
    }
}

/// A value on a line: quoted where it would look like several.
fn plain(value: &Json) -> String {
    match value {
        Json::String(text) if is_word(text) => text.clone(),
        other => String::from_utf8_lossy(&other.to_text()).into_owned(),
    }
}

fn is_word(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_graphic() && byte != b'"')
}

impl Visit for LogLine {
    fn record_i64(&mut self, field: &Field, value: i64) {
        self.put(field.name(), Json::Number(value.to_string().into()));
    }

    fn record_u64(&mut self, field: &Field, value: u64) {
        self.put(field.name(), value.into());
    }

    fn record_bool(&mut self, field: &Field, value: bool) {
        self.put(field.name(), value.into());
    }

    fn record_str(&mut self, field: &Field, value: &str) {
        self.put(field.name(), value.into());
    }

    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        self.put(field.name(), format!("{value:?}").into());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_event_is_one_line_whatever_its_fields_say() {
        for (event, line) in [
            ("plain\n", "plain\n"),
            ("error=Code: 403.\r\n* denied\n", "error=Code: 403.\\r\\n* denied\n"),
            ("a\n\n", "a\\n\n"),
            ("no end", "no end"),
            ("", ""),
        ] {
            assert_eq!(on_one_line(event.as_bytes()), line.as_bytes(), "{event:?}");
        }
    }
}
