//! `pki health-check MOUNT`: what a mount should change, and what will soon fail.
//!
//! Checks are rows of [`checks::CHECKS`]: a name, the parameters with what they are unless a file says otherwise, and what looks. Each
//! finds things of seven severities; the worst decides the exit code, as with Vault's command:
//!
//! | code | means |
//! |---|---|
//! | 0 | all is well |
//! | 1 | a mistake in the call |
//! | 2, 3, 4 | something to know, to mend, to mend now |
//! | 5, 6 | a check could not run: the server has not what it asks for, or the token may not see it |

mod authorities;
mod checks;
mod mount;
mod roles;
mod tidying;

use std::path::PathBuf;

use clap::{ArgAction, Args, ValueEnum};
use jiff::Timestamp;

use self::checks::{CHECKS, PkiCheck};
use self::mount::PkiMount;
use kallisto_command::client::{Client, url};
use kallisto_command::config::Config;
use kallisto_command::duration;
use kallisto_command::error::{EXIT_USAGE, Error};
use kallisto_command::files;
use kallisto_command::flags::CommonFlags;
use kallisto_command::json::{Json, Map, parse, parse_object};
use kallisto_command::outcome::Outcome;
use kallisto_command::output::{Document, OutputFormat, table};

/// How bad a finding is. Its number is the exit code that it may lead to, but for the first two.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Severity {
    /// There was nothing to look at.
    NotApplicable = 0,
    /// It is well.
    Ok = 1,
    /// Worth knowing.
    Informational = 2,
    /// To be mended.
    Warning = 3,
    /// To be mended now.
    Critical = 4,
    /// The server has not what the check asks for.
    InvalidVersion = 5,
    /// The token may not see it.
    InsufficientPermissions = 6,
}

impl Severity {
    const fn name(self) -> &'static str {
        match self {
            Self::NotApplicable => "not_applicable",
            Self::Ok => "ok",
            Self::Informational => "informational",
            Self::Warning => "warning",
            Self::Critical => "critical",
            Self::InvalidVersion => "invalid_version",
            Self::InsufficientPermissions => "insufficient_permissions",
        }
    }
}

/// What a check found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct HealthFinding {
    severity: Severity,
    /// What was asked, with a slash before it.
    endpoint: String,
    message: String,
}

impl HealthFinding {
    /// A finding at a path below `/v1/`.
    pub(super) fn new(severity: Severity, path: &str, message: impl Into<String>) -> Self {
        Self { severity, endpoint: format!("/{path}"), message: message.into() }
    }
}

/// When the exit code says that something was found.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum ReturnIndicator {
    /// By the worst finding
    Default,
    /// Only where a check could not run
    Permission,
    /// There, and for critical findings
    Critical,
    /// There, and for warnings
    Warning,
    /// There, and for all that is worth knowing
    Informational,
}

impl ReturnIndicator {
    /// The exit code for the worst finding.
    const fn code(self, worst: Severity) -> u8 {
        let least = match self {
            Self::Permission => Severity::InvalidVersion,
            Self::Critical => Severity::Critical,
            Self::Warning => Severity::Warning,
            Self::Default | Self::Informational => Severity::Informational,
        };
        if (worst as u8) < (least as u8) { 0 } else { worst as u8 }
    }
}

/// Looks for what a PKI mount should change, and for what will soon fail.
///
/// Only what the token may see is looked at. A file of JSON can turn checks off (`{"too_many_certs": {"enabled": false}}`) and change
/// their parameters; -list prints them all.
#[derive(Args, Debug)]
#[command(
    after_help = "Examples:\n  kallisto pki health-check pki\n  kallisto pki health-check -list\n  kallisto pki health-check -health-config=checks.json -return-indicator=critical pki\n\nExit codes: 0 all is well, 1 it failed, 2 something to know, 3 a warning,\n4 something critical, 5 or 6 a check could not run"
)]
pub(crate) struct HealthCheck {
    /// The path of the mount; not needed with -list
    mount: Option<String>,
    /// Run only the checks that the file enables
    #[arg(long = "default-disabled", num_args = 0..=1, require_equals = true, default_missing_value = "true", default_value_t = false, action = ArgAction::Set, value_name = "BOOL")]
    default_disabled: bool,
    /// Parameters of checks: a file of JSON
    #[arg(long = "health-config", value_name = "FILE")]
    health_config: Option<PathBuf>,
    /// Print the checks and their parameters; look at nothing
    #[arg(long)]
    list: bool,
    /// Which findings the exit code tells
    #[arg(long = "return-indicator", value_name = "INDICATOR", default_value = "default")]
    return_indicator: ReturnIndicator,
    #[command(flatten)]
    common: CommonFlags,
}

impl HealthCheck {
    /// Looks. 2 and above are findings here, so no failure may be.
    pub(crate) fn run(self) -> Result<Outcome, Error> {
        Ok(self.look().unwrap_or_else(|error| {
            let code = error.exit_code().min(EXIT_USAGE);
            Outcome::from(error).with_code(code)
        }))
    }

    fn look(self) -> Result<Outcome, Error> {
        let config = Config::load(&self.common)?;
        let given = self.given()?;
        if self.list {
            return list(&given, config.format);
        }
        let Some(path) = &self.mount else {
            return Err(Error::usage("Not enough arguments: the path of a PKI mount"));
        };
        let path = url::clean(path)?;
        let client = Client::new(&config)?;
        let mount = PkiMount::open(&client, &path, Timestamp::now().as_second())?;
        let mut found = Vec::new();
        for check in CHECKS {
            let parameters = parameters(check, &given)?;
            if is_enabled(&parameters, !self.default_disabled)? {
                found.push((check.name, (check.run)(&mount, &CheckParameters(&parameters))?));
            }
        }
        let all = found.iter().flat_map(|(_, findings)| findings);
        let worst = all.map(|finding| finding.severity).max().unwrap_or(Severity::Ok);
        let text = match config.format {
            OutputFormat::Table => tables(&found),
            format => Document::Object(&as_json(&found)).to_text(format)?,
        };
        Ok(Outcome::print(text).with_code(self.return_indicator.code(worst)))
    }

    /// What the file says of checks; a check that there is not is a mistake.
    fn given(&self) -> Result<Map, Error> {
        let Some(file) = &self.health_config else { return Ok(Map::new()) };
        let refused = |why: String| Error::usage(format!("{}: {why}", file.display()));
        let bytes = files::read(file).map_err(|why| refused(why.to_string()))?;
        let given = parse_object(&bytes).map_err(|why| refused(why.to_string()))?;
        for (name, parameters) in &given {
            let Some(check) = CHECKS.iter().find(|check| check.name == name) else {
                return Err(refused(format!("there is no check {name:?}; -list prints them")));
            };
            let Some(parameters) = parameters.as_object() else {
                return Err(refused(format!("{name} takes an object")));
            };
            let known = |wanted: &str| {
                wanted == "enabled" || check.parameters.iter().any(|(name, _)| *name == wanted)
            };
            if let Some(unknown) = parameters.keys().find(|name| !known(name)) {
                return Err(refused(format!("{name} has no parameter {unknown:?}")));
            }
        }
        Ok(given)
    }
}

/// The parameters of a check: its own, and over them what the file says.
fn parameters(check: &PkiCheck, given: &Map) -> Result<Map, Error> {
    let mut parameters = Map::new();
    for (name, text) in check.parameters {
        let value = parse(text.as_bytes()).map_err(|why| Error::usage(why.to_string()))?;
        parameters.insert((*name).to_owned(), value);
    }
    if let Some(over) = given.get(check.name).and_then(Json::as_object) {
        parameters.extend(over.clone());
    }
    Ok(parameters)
}

fn is_enabled(parameters: &Map, otherwise: bool) -> Result<bool, Error> {
    match parameters.get("enabled") {
        None => Ok(otherwise),
        Some(Json::Bool(is)) => Ok(*is),
        Some(_) => Err(Error::usage("enabled is true or false")),
    }
}

/// The parameters of a check, read by kind.
pub(super) struct CheckParameters<'a>(&'a Map);

impl CheckParameters<'_> {
    /// A length of time, in seconds.
    pub(super) fn secs(&self, name: &str) -> Result<i64, Error> {
        let text = self.text(name);
        let span = duration::parse(&text).map_err(|why| Error::usage(format!("{name}: {why}")))?;
        Ok(i64::try_from(span.as_secs()).unwrap_or(i64::MAX))
    }

    /// The same, in milliseconds.
    pub(super) fn millis(&self, name: &str) -> Result<u128, Error> {
        let text = self.text(name);
        let span = duration::parse(&text).map_err(|why| Error::usage(format!("{name}: {why}")))?;
        Ok(span.as_millis())
    }

    /// A number.
    pub(super) fn number(&self, name: &str) -> Result<u64, Error> {
        let refused = || Error::usage(format!("{name} is no number"));
        self.text(name).parse().map_err(|_| refused())
    }

    /// A list of texts.
    pub(super) fn texts(&self, name: &str) -> Vec<String> {
        super::fetch::strings(self.0, name)
    }

    fn text(&self, name: &str) -> String {
        self.0.get(name).map(table::show).unwrap_or_default()
    }
}

fn list(given: &Map, format: OutputFormat) -> Result<Outcome, Error> {
    let mut all = Map::new();
    for check in CHECKS {
        all.insert(check.name.to_owned(), Json::Object(parameters(check, given)?));
    }
    let format = if format == OutputFormat::Table { OutputFormat::Json } else { format };
    Ok(Outcome::print(Document::Object(&all).to_text(format)?))
}

/// A table for each check, below its name.
fn tables(found: &[(&str, Vec<HealthFinding>)]) -> String {
    let one = |(name, findings): &(&str, Vec<HealthFinding>)| {
        let rows = findings.iter().map(|finding| {
            vec![finding.severity.name().into(), finding.endpoint.clone(), finding.message.clone()]
        });
        let table = table::under(&["status", "endpoint", "message"], rows);
        format!("{name}\n{}\n{table}\n\n", "-".repeat(name.len()))
    };
    found.iter().map(one).collect()
}

fn as_json(found: &[(&str, Vec<HealthFinding>)]) -> Map {
    let one = |finding: &HealthFinding| {
        Json::Object(Map::from([
            ("status_code".to_owned(), Json::from(finding.severity as u64)),
            ("status".to_owned(), Json::from(finding.severity.name())),
            ("endpoint".to_owned(), Json::from(&*finding.endpoint)),
            ("message".to_owned(), Json::from(&*finding.message)),
        ]))
    };
    let check = |(name, findings): &(&str, Vec<HealthFinding>)| {
        ((*name).to_owned(), Json::Array(findings.iter().map(one).collect()))
    };
    found.iter().map(check).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_indicator_decides_which_findings_the_exit_code_tells() {
        use Severity as S;
        for (indicator, worst, code) in [
            (ReturnIndicator::Default, S::NotApplicable, 0),
            (ReturnIndicator::Default, S::Ok, 0),
            (ReturnIndicator::Default, S::Informational, 2),
            (ReturnIndicator::Default, S::InsufficientPermissions, 6),
            (ReturnIndicator::Permission, S::Critical, 0),
            (ReturnIndicator::Permission, S::InvalidVersion, 5),
            (ReturnIndicator::Critical, S::Warning, 0),
            (ReturnIndicator::Critical, S::Critical, 4),
            (ReturnIndicator::Warning, S::Informational, 0),
            (ReturnIndicator::Warning, S::Warning, 3),
            (ReturnIndicator::Informational, S::Informational, 2),
        ] {
            assert_eq!(indicator.code(worst), code, "{indicator:?} {worst:?}");
        }
    }

    #[test]
    fn every_parameter_of_every_check_reads_as_its_kind() {
        for check in CHECKS {
            let own = parameters(check, &Map::new()).expect(check.name);
            let read = CheckParameters(&own);
            for (name, _) in check.parameters {
                let fits = *name == "enabled"
                    || read.secs(name).is_ok()
                    || read.number(name).is_ok()
                    || matches!(own.get(*name), Some(Json::Array(_)));
                assert!(fits, "{}: {name}", check.name);
            }
        }
    }
}
