//! `token create`.

use clap::Args;

use kallisto_command::client::{Client, ClientRequest, Method};
use kallisto_command::config::Config;
use kallisto_command::error::Error;
use kallisto_command::flags::{CommonFlags, FieldFlag, parse_duration};
use kallisto_command::json::{Json, Map};
use kallisto_command::outcome::Outcome;
use kallisto_command::output;

/// Makes a token, below one's own unless it is an orphan.
#[derive(Args, Debug)]
#[command(
    after_help = "Examples:\n  kallisto token create -policy=app -ttl=1h\n  kallisto token create -policy=ci -use-limit=5 -field=token\n  kallisto token create -role=batch-jobs"
)]
pub(crate) struct Create {
    /// A policy to attach; may be repeated
    #[arg(long, value_name = "NAME")]
    policy: Vec<String>,
    /// How long it lives, e.g. 1h
    #[arg(long, value_name = "DURATION", value_parser = parse_duration)]
    ttl: Option<String>,
    /// How long it lives at the most, however often it is renewed
    #[arg(long, value_name = "DURATION", value_parser = parse_duration)]
    explicit_max_ttl: Option<String>,
    /// Each renewal gives this much, for ever
    #[arg(long, value_name = "DURATION", value_parser = parse_duration)]
    period: Option<String>,
    /// Requests it may make; 0 for no limit
    #[arg(long, value_name = "NUMBER")]
    use_limit: Option<u64>,
    /// Whether it may be renewed
    #[arg(long, num_args = 0..=1, require_equals = true, default_missing_value = "true", value_name = "BOOL")]
    renewable: Option<bool>,
    /// It does not end with one's own token
    #[arg(long)]
    orphan: bool,
    /// Leave the default policy off
    #[arg(long)]
    no_default_policy: bool,
    /// Something to remember, as KEY=VALUE; may be repeated
    #[arg(long, value_name = "KEY=VALUE")]
    metadata: Vec<String>,
    /// The text of the token; drawn when absent
    #[arg(long, value_name = "TEXT")]
    id: Option<String>,
    /// The name shown to people
    #[arg(long, value_name = "TEXT")]
    display_name: Option<String>,
    /// Its kind, service or batch
    #[arg(long = "type", value_name = "KIND")]
    kind: Option<String>,
    /// The alias whose entity it is to belong to, of those that the role allows
    #[arg(long, value_name = "NAME")]
    entity_alias: Option<String>,
    /// The role to make it through
    #[arg(long, value_name = "NAME")]
    role: Option<String>,
    #[command(flatten)]
    common: CommonFlags,
    #[command(flatten)]
    field: FieldFlag,
}

impl Create {
    pub(super) fn run(self) -> Result<Outcome, Error> {
        let config = Config::load(&self.common)?;
        let path = match (&self.role, self.orphan) {
            (Some(role), _) => format!("auth/token/create/{role}"),
            (None, true) => "auth/token/create-orphan".to_owned(),
            (None, false) => "auth/token/create".to_owned(),
        };
        let client = Client::new(&config)?;
        let request =
            ClientRequest::new(Method::Post, &path).with_body(&Json::Object(self.body()?));
        let answer =
            client.send(&request.wrappable()).map_err(Error::doing("Error creating token"))?;
        let answer = answer.ok_or_else(|| Error::Absent("No token was made".to_owned()))?;
        output::secret(&answer, &config, self.field.field.as_deref())
    }

    fn body(&self) -> Result<Map, Error> {
        let mut body = Map::new();
        let texts = [
            ("ttl", &self.ttl),
            ("explicit_max_ttl", &self.explicit_max_ttl),
            ("period", &self.period),
            ("id", &self.id),
            ("display_name", &self.display_name),
            ("type", &self.kind),
            ("entity_alias", &self.entity_alias),
        ];
        for (name, text) in texts {
            if let Some(text) = text {
                body.insert(name.into(), text.as_str().into());
            }
        }
        if !self.policy.is_empty() {
            let policies = self.policy.iter().map(|name| Json::from(name.as_str()));
            body.insert("policies".into(), Json::Array(policies.collect()));
        }
        if let Some(uses) = self.use_limit {
            body.insert("num_uses".into(), uses.into());
        }
        if let Some(renewable) = self.renewable {
            body.insert("renewable".into(), renewable.into());
        }
        if self.no_default_policy {
            body.insert("no_default_policy".into(), true.into());
        }
        if !self.metadata.is_empty() {
            let meta = crate::pairs::texts("-metadata", &self.metadata)?;
            body.insert("meta".into(), Json::Object(meta));
        }
        Ok(body)
    }
}
