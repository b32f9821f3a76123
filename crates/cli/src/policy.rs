//! `policy`: who may do what, as text.

use clap::{Args, Subcommand};

use super::mounted;
use super::pairs::PairInputs;
use super::policy_format;
use kallisto_command::client::{Client, ClientRequest, Method, url};
use kallisto_command::config::Config;
use kallisto_command::error::Error;
use kallisto_command::flags::CommonFlags;
use kallisto_command::json::{Json, Map};
use kallisto_command::outcome::Outcome;
use kallisto_command::output::{self, Document, OutputFormat};
use kallisto_command::secret::Secret;

const DOING: &str = "Error with policies";

/// What can be done with policies.
#[derive(Subcommand, Debug)]
pub(crate) enum Policy {
    /// Print the names of all policies
    List(List),
    /// Print the text of a policy
    Read(Named),
    /// Write a policy from a file or standard input
    Write(Write),
    /// Delete a policy
    Delete(Named),
    /// Lay out a policy's file: spaces, indents and empty lines
    Fmt(Fmt),
    /// Print which rule decides about a path, and why the others lost
    Explain(Explain),
}

impl Policy {
    /// Does it.
    pub(crate) fn run(self) -> Result<Outcome, Error> {
        match self {
            Self::List(list) => list.run(),
            Self::Read(named) => named.read(),
            Self::Write(write) => write.run(),
            Self::Delete(named) => named.delete(),
            Self::Fmt(fmt) => fmt.run(),
            Self::Explain(explain) => explain.run(),
        }
    }
}

/// Prints the names of all policies.
#[derive(Args, Debug)]
#[command(after_help = "Examples:\n  kallisto policy list\n  kallisto policy list -format=json")]
pub(crate) struct List {
    #[command(flatten)]
    common: CommonFlags,
}

impl List {
    fn run(self) -> Result<Outcome, Error> {
        let config = Config::load(&self.common)?;
        let client = Client::new(&config)?;
        let request = ClientRequest::list("sys/policies/acl");
        let answer = client.send(&request).map_err(Error::doing(DOING))?;
        let answer = answer.ok_or_else(|| Error::Absent(mounted::absent(DOING)))?;
        let Some(names @ Json::Array(listed)) = answer.datum("keys") else {
            return Err(Error::empty_answer(DOING));
        };
        if config.format != OutputFormat::Table {
            return Ok(Outcome::print(Document::Value(names).to_text(config.format)?));
        }
        let lines = listed.iter().filter_map(Json::as_str).map(|name| format!("{name}\n"));
        Ok(Outcome::print(lines.collect::<String>()))
    }
}

/// A policy by its name.
#[derive(Args, Debug)]
#[command(after_help = "Examples:\n  kallisto policy read app\n  kallisto policy delete app")]
pub(crate) struct Named {
    /// Its name
    name: String,
    #[command(flatten)]
    common: CommonFlags,
}

impl Named {
    fn read(self) -> Result<Outcome, Error> {
        let config = Config::load(&self.common)?;
        let client = Client::new(&config)?;
        let answer = client.send(&ClientRequest::get(&path(&self.name)?));
        let answer = answer.map_err(Error::doing(DOING))?;
        let absent = || Error::Absent(format!("No policy named: {}", self.name));
        let data = Secret::data_of(Some(answer.ok_or_else(absent)?), DOING)?;
        if config.format != OutputFormat::Table {
            return Ok(Outcome::print(Document::Object(&data).to_text(config.format)?));
        }
        let text = data.get("policy").and_then(Json::as_str);
        let text = text.ok_or_else(|| Error::empty_answer(DOING))?;
        Ok(Outcome::line(text.trim()))
    }

    fn delete(self) -> Result<Outcome, Error> {
        let config = Config::load(&self.common)?;
        let done = format!("Success! Deleted policy: {}", self.name);
        mounted::remove(&config, &path(&self.name)?, DOING, &done)
    }
}

/// Writes a policy.
#[derive(Args, Debug)]
#[command(
    after_help = "Examples:\n  kallisto policy write app app.hcl\n  cat app.hcl | kallisto policy write app -"
)]
pub(crate) struct Write {
    /// Its name
    name: String,
    /// The file with its text, in HCL or JSON; - for standard input
    file: String,
    #[command(flatten)]
    common: CommonFlags,
}

impl Write {
    fn run(self) -> Result<Outcome, Error> {
        let config = Config::load(&self.common)?;
        let bytes = match self.file.as_str() {
            "-" => PairInputs::process().stdin().map_err(Error::unusable)?,
            file => kallisto_command::files::read(file.as_ref()).map_err(|error| {
                Error::unusable(format!("Error opening policy file {file}: {error}"))
            })?,
        };
        let text = String::from_utf8(bytes);
        let text = text.map_err(|_| Error::unusable("the policy is not UTF-8 text"))?;
        let body = Map::from([("policy".to_owned(), Json::from(text))]);
        let client = Client::new(&config)?;
        let answer = client.send(&ClientRequest::put(&path(&self.name)?, body));
        let notice = answer.map_err(Error::doing(DOING))?.map(|answer| output::warnings(&answer));
        let name = self.name.to_lowercase();
        let done = output::done(&config, &format!("Success! Uploaded policy: {name}"));
        Ok(done.with_notice(&notice.unwrap_or_default()))
    }
}

/// Lays out a policy's file.
#[derive(Args, Debug)]
#[command(
    after_help = "Examples:\n  kallisto policy fmt app.hcl\n  kallisto policy fmt -check app.hcl\n  kallisto policy fmt - < app.hcl\n\n\
    Exit codes: 0 done, or laid out already with -check; 1 it is no HCL, or -check finds another layout"
)]
pub(crate) struct Fmt {
    /// The file, which is replaced; - for standard input to standard output
    file: String,
    /// Write nothing, and fail where the layout is another
    #[arg(long)]
    check: bool,
}

impl Fmt {
    fn run(self) -> Result<Outcome, Error> {
        let Self { file, check } = self;
        let bytes = match file.as_str() {
            "-" => PairInputs::process().stdin().map_err(Error::usage)?,
            file => kallisto_command::files::read(file.as_ref()).map_err(|error| {
                Error::usage(format!("Error opening policy file {file}: {error}"))
            })?,
        };
        kallisto_hcl::parse(&bytes).map_err(|error| Error::usage(format!("{file}: {error}")))?;
        let text = String::from_utf8(bytes);
        let text = text.map_err(|_| Error::usage(format!("{file}: it is not UTF-8 text")))?;
        if text.trim_start().starts_with('{') {
            return Err(Error::usage(format!("{file}: it is JSON, and HCL is laid out here")));
        }
        // What was laid out says what the file says; else it would not be written.
        let words = |text: &str| text.replace(|c: char| c.is_whitespace() || c == ',', "");
        let says_the_same = |made: &String| {
            words(&text) == words(made) && kallisto_hcl::parse(made.as_bytes()).is_ok()
        };
        let made = policy_format::format(&text)
            .filter(says_the_same)
            .ok_or_else(|| Error::usage(format!("{file}: its layout is not understood")))?;
        if check {
            return match made == text {
                true => Ok(Outcome::default()),
                false => Err(Error::usage(format!("{file} is laid out in another way"))),
            };
        }
        if file == "-" {
            return Ok(Outcome::print(made));
        }
        if made != text {
            kallisto_command::files::rewrite(file.as_ref(), made.as_bytes())
                .map_err(|error| Error::usage(format!("{file}: {error}")))?;
        }
        Ok(Outcome::line(format!("Success! Formatted policy: {file}")))
    }
}

/// Prints which rule decides about a path, and why the others lost.
#[derive(Args, Debug)]
#[command(
    after_help = "Examples:\n  kallisto policy explain -path=secret/data/app\n  kallisto policy explain -token-accessor=Kl1JzyR5bTqXUhHDIHNLj8Dz -path=secret/data/app -capability=update"
)]
pub(crate) struct Explain {
    /// The token asked about, by its accessor; one's own without it
    #[arg(long, value_name = "ACCESSOR")]
    token_accessor: Option<String>,
    /// The path asked about
    #[arg(long, value_name = "PATH")]
    path: String,
    /// What is to be done there
    #[arg(long, value_name = "NAME", default_value = "read")]
    capability: String,
    #[command(flatten)]
    common: CommonFlags,
}

impl Explain {
    fn run(self) -> Result<Outcome, Error> {
        let config = Config::load(&self.common)?;
        let mut body = Map::from([
            ("path".to_owned(), Json::from(self.path.as_str())),
            ("capability".to_owned(), Json::from(self.capability.as_str())),
        ]);
        if let Some(accessor) = &self.token_accessor {
            body.insert("accessor".into(), accessor.as_str().into());
        }
        let client = Client::new(&config)?;
        let request = ClientRequest::new(Method::Post, "sys/policies/explain");
        let answer = client.send(&request.with_body(&Json::Object(body)));
        let doing = "Error explaining";
        let data = Secret::data_of(answer.map_err(Error::doing(doing))?, doing)?;
        let is_allowed = Secret::flag_of(&data, "allowed", doing)?;
        if config.format != OutputFormat::Table {
            return Ok(Outcome::print(Document::Object(&data).to_text(config.format)?));
        }
        Ok(Outcome::print(explanation(&data, is_allowed, &self.capability, &self.path)))
    }
}

/// An explanation as sentences.
fn explanation(data: &Map, is_allowed: bool, capability: &str, path: &str) -> String {
    let text =
        |map: &Map, name: &str| map.get(name).and_then(Json::as_str).unwrap_or_default().to_owned();
    let verdict = if is_allowed { "granted" } else { "denied" };
    let mut sentences = format!("{capability} {path}: {verdict}, {}\n", text(data, "reason"));
    if let Some(rule) = data.get("decided_by").and_then(Json::as_object) {
        sentences.push_str(&format!("  decided by  {}\n", rule_line(rule)));
    }
    for (name, title) in [("lost", "lost"), ("dropped", "left out")] {
        let Some(Json::Array(items)) = data.get(name) else { continue };
        for item in items.iter().filter_map(Json::as_object) {
            let line = rule_line(item.get("rule").and_then(Json::as_object).unwrap_or(item));
            sentences.push_str(&format!("  {title:<10}  {line}: {}\n", text(item, "because")));
        }
    }
    sentences
}

/// A rule: its pattern, what it grants, and the policies and lines it comes from.
fn rule_line(rule: &Map) -> String {
    let list = |value: Option<&Json>| match value {
        Some(Json::Array(items)) => items.clone(),
        _ => Vec::new(),
    };
    let names = list(rule.get("capabilities"));
    let names: Vec<&str> = names.iter().filter_map(Json::as_str).collect();
    let mut sources = list(rule.get("sources"));
    if sources.is_empty() {
        sources.push(Json::Object(rule.clone()));
    }
    let places: Vec<String> = sources
        .iter()
        .filter_map(Json::as_object)
        .map(|source| {
            let show = |name: &str| source.get(name).map(output::table::show).unwrap_or_default();
            format!("{} line {}", show("policy"), show("line"))
        })
        .collect();
    let pattern = rule.get("pattern").and_then(Json::as_str).unwrap_or_default();
    format!("\"{pattern}\" [{}] ({})", names.join(", "), places.join(", "))
}

fn path(name: &str) -> Result<String, Error> {
    url::clean(&format!("sys/policies/acl/{}", name.to_lowercase()))
}
