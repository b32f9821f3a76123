//! Roles: what is made for whoever asks, and in which namespaces.

use kallisto_api::fields::scalar_text;
use kallisto_api::json::{Json, Map};
use kallisto_api::{Error, Fields, Response, Span};
use kallisto_engine::{Call, EngineContext, Stored};

use super::account_name;
use super::object_name::{check_namespace, is_object_name, is_role_name};
use super::rules;
use super::selector::NamespaceSelector;

/// Most namespaces or audiences of a role.
const NAMES_MAX: usize = 256;
/// Most labels or annotations that a role adds.
const EXTRAS_MAX: usize = 64;
/// Longest label or annotation, in bytes.
const EXTRA_BYTES_MAX: usize = 4096;
/// Labels of every object that is made; a role sets no others in their stead.
pub(super) const OWN_LABELS: [(&str, &str); 2] = [
    ("app.kubernetes.io/created-by", "kallisto-kubernetes-secrets"),
    ("app.kubernetes.io/managed-by", "kallisto"),
];

/// A role.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct ClusterAccess {
    name: String,
    namespaces: Vec<String>,
    /// As it was given; empty for none.
    selector: String,
    pub(super) token_default_secs: u64,
    pub(super) token_max_secs: u64,
    pub(super) audiences: Vec<String>,
    /// A service account that is there; empty for one that is made.
    pub(super) service_account: String,
    /// A role of the cluster that is there; empty for one that is made.
    pub(super) kubernetes_role: String,
    /// Whether that, or the one that is made, is a `ClusterRole`.
    pub(super) is_cluster_role: bool,
    /// The rules of a role that is made, as they were given; empty for none.
    rules: String,
    pub(super) name_template: String,
    pub(super) labels: Map,
    pub(super) annotations: Map,
}

impl ClusterAccess {
    fn named(name: &str) -> Self {
        Self {
            name: name.to_owned(),
            namespaces: Vec::new(),
            selector: String::new(),
            token_default_secs: 0,
            token_max_secs: 0,
            audiences: Vec::new(),
            service_account: String::new(),
            kubernetes_role: String::new(),
            is_cluster_role: false,
            rules: String::new(),
            name_template: String::new(),
            labels: Map::new(),
            annotations: Map::new(),
        }
    }

    fn decode(name: &str, stored: &Stored) -> Result<Self, Error> {
        stored.decode_object(|map| {
            let mut role = Self::named(name);
            role.take(Fields::new(map)).map(|()| role)
        })
    }

    /// Takes the fields that are given.
    fn take(&mut self, fields: Fields<'_>) -> Result<(), Error> {
        for (name, list) in [
            ("allowed_kubernetes_namespaces", &mut self.namespaces),
            ("token_default_audiences", &mut self.audiences),
        ] {
            if let Some(given) = fields.strings(name)? {
                if given.len() > NAMES_MAX {
                    return Err(Error::invalid(format!("{name} has more than {NAMES_MAX} names")));
                }
                *list = given;
            }
        }
        for (name, text) in [
            ("allowed_kubernetes_namespace_selector", &mut self.selector),
            ("service_account_name", &mut self.service_account),
            ("kubernetes_role_name", &mut self.kubernetes_role),
            ("generated_role_rules", &mut self.rules),
            ("name_template", &mut self.name_template),
        ] {
            if let Some(given) = fields.string(name)? {
                *text = given;
            }
        }
        for (name, secs) in [
            ("token_default_ttl", &mut self.token_default_secs),
            ("token_max_ttl", &mut self.token_max_secs),
        ] {
            if let Some(given) = fields.span(name)? {
                let bad = |_| Error::invalid(format!("{name} is negative"));
                *secs = u64::try_from(given.secs()).map_err(bad)?;
            }
        }
        for (name, extras) in
            [("extra_labels", &mut self.labels), ("extra_annotations", &mut self.annotations)]
        {
            if let Some(given) = fields.pairs(name)? {
                *extras = extra_texts(name, given)?;
            }
        }
        if let Some(given) = fields.string("kubernetes_role_type")? {
            self.is_cluster_role = match given.to_ascii_lowercase().as_str() {
                "" | "role" => false,
                "clusterrole" => true,
                _ => {
                    return Err(Error::invalid(
                        "kubernetes_role_type must be either 'Role' or 'ClusterRole'",
                    ));
                }
            };
        }
        Ok(())
    }

    /// Refuses a role by which nothing could be made, or more than it says.
    fn check(&self) -> Result<(), Error> {
        if self.namespaces.is_empty() && self.selector.is_empty() {
            return Err(Error::invalid(
                "one (at least) of allowed_kubernetes_namespaces or \
                 allowed_kubernetes_namespace_selector must be set",
            ));
        }
        let ways = [&self.service_account, &self.kubernetes_role, &self.rules];
        if ways.iter().filter(|way| !way.is_empty()).count() != 1 {
            return Err(Error::invalid(
                "one (and only one) of service_account_name, kubernetes_role_name or \
                 generated_role_rules must be set",
            ));
        }
        let (first, most) = (self.token_default_secs, self.token_max_secs);
        if most > 0 && first > most {
            return Err(Error::invalid(format!(
                "token_default_ttl {} cannot be greater than token_max_ttl {}",
                go_text(first),
                go_text(most)
            )));
        }
        for namespace in self.namespaces.iter().filter(|one| *one != "*") {
            check_namespace(namespace)?;
        }
        if !self.selector.is_empty() && self.selector().is_none() {
            return Err(Error::invalid(
                "failed to parse 'allowed_kubernetes_namespace_selector' as \
                 k8s.io/api/meta/v1/LabelSelector object",
            ));
        }
        if !self.service_account.is_empty() && !is_object_name(&self.service_account) {
            return Err(Error::invalid("service_account_name is no name of a service account"));
        }
        if !is_role_name(&self.kubernetes_role) {
            return Err(Error::invalid("kubernetes_role_name is no name of a role"));
        }
        if !self.rules.is_empty() {
            self.rules()?;
        }
        account_name::check_template(&self.name_template, &self.name)
    }

    /// The selector of namespaces.
    fn selector(&self) -> Option<NamespaceSelector> {
        NamespaceSelector::parse(&self.selector)
    }

    /// Whether it may be used in a namespace; `None` where that is a matter of the namespace's labels.
    pub(super) fn admits(&self, namespace: &str) -> Option<bool> {
        match self.namespaces.iter().any(|one| one == "*" || one == namespace) {
            true => Some(true),
            false if self.selector.is_empty() => Some(false),
            false => None,
        }
    }

    /// Whether the labels of a namespace are those that the role asks for.
    ///
    /// # Errors
    /// [`Error::Internal`] for a role that is damaged.
    pub(super) fn admits_labels(
        &self,
        labels: &std::collections::BTreeMap<&str, &str>,
    ) -> Result<bool, Error> {
        let selector = self.selector().ok_or_else(|| {
            Error::internal(&format_args!("the selector of the role {:?} is damaged", self.name))
        })?;
        Ok(selector.holds(labels))
    }

    /// The only namespace there is, if there is only one.
    pub(super) fn only_namespace(&self) -> Option<&str> {
        match &self.namespaces[..] {
            [only] if only != "*" && self.selector.is_empty() => Some(only),
            _ => None,
        }
    }

    /// The rules of a role that is made.
    ///
    /// # Errors
    /// [`Error::Invalid`] for what is none.
    pub(super) fn rules(&self) -> Result<Json, Error> {
        rules::parse(&self.rules).ok_or_else(|| {
            Error::invalid(
                "failed to parse 'generated_role_rules' as k8s.io/api/rbac/v1/Policy object",
            )
        })
    }

    fn shown(&self) -> Map {
        let kind = if self.is_cluster_role { "ClusterRole" } else { "Role" };
        [
            ("allowed_kubernetes_namespace_selector", self.selector.as_str().into()),
            ("allowed_kubernetes_namespaces", Json::strings(self.namespaces.iter().cloned())),
            ("extra_annotations", self.annotations.clone().into()),
            ("extra_labels", self.labels.clone().into()),
            ("generated_role_rules", self.rules.as_str().into()),
            ("kubernetes_role_name", self.kubernetes_role.as_str().into()),
            ("kubernetes_role_type", kind.into()),
            ("name", self.name.as_str().into()),
            ("name_template", self.name_template.as_str().into()),
            ("service_account_name", self.service_account.as_str().into()),
            ("token_default_audiences", Json::strings(self.audiences.iter().cloned())),
            ("token_default_ttl", self.token_default_secs.into()),
            ("token_max_ttl", self.token_max_secs.into()),
        ]
        .into_iter()
        .map(|(name, value)| (name.to_owned(), value))
        .collect()
    }
}

/// Labels or annotations that a role adds.
fn extra_texts(name: &str, given: Map) -> Result<Map, Error> {
    if given.len() > EXTRAS_MAX {
        return Err(Error::invalid(format!("{name} has more than {EXTRAS_MAX} entries")));
    }
    let mut extras = Map::new();
    for (key, value) in given {
        if OWN_LABELS.iter().any(|(own, _)| *own == key) {
            return Err(Error::invalid(format!("{name}: {key} is set by this server")));
        }
        // A label is a text, also where YAML or a program made `true` or 1 of it.
        let text = match value {
            Json::Bool(is_true) => Some(is_true.to_string()),
            value => scalar_text(&value),
        };
        let text = text.filter(|text| text.len() + key.len() <= EXTRA_BYTES_MAX);
        let text = text.ok_or_else(|| {
            Error::invalid(format!("{name}: values are texts of {EXTRA_BYTES_MAX} bytes at most"))
        })?;
        extras.insert(key, text.into());
    }
    Ok(extras)
}

/// A time as the field's messages have it, such as `1h0m0s`.
pub(super) fn go_text(secs: u64) -> String {
    let span = i64::try_from(secs).ok().and_then(Span::from_secs);
    span.unwrap_or(Span::from_nanos(i64::MAX)).to_go()
}

pub(super) fn record_name(name: &str) -> String {
    format!("role/{name}")
}

/// A role by its name.
pub(super) fn find(
    context: &EngineContext<'_>,
    name: &str,
) -> Result<Option<ClusterAccess>, Error> {
    let found = context.storage.get(&record_name(name))?;
    found.map(|found| ClusterAccess::decode(name, &found)).transpose()
}

pub(super) async fn write(call: Call<'_>) -> Result<Response, Error> {
    let name = call.name("name")?;
    let body = call.request.object()?;
    let record = record_name(name);
    let writing = call.storage.transact(&record, |transaction| {
        let before = transaction.get(&record)?.map(|found| ClusterAccess::decode(name, &found));
        let mut role = before.transpose()?.unwrap_or_else(|| ClusterAccess::named(name));
        role.take(Fields::new(&body))?;
        role.check()?;
        transaction.put(&record, Json::Object(role.shown()).to_text())
    });
    writing.await.map(|()| Response::Empty)
}

pub(super) async fn read(call: Call<'_>) -> Result<Response, Error> {
    let name = call.name("name")?;
    Ok(Response::data(&find(&call, name)?.ok_or(Error::NotFound)?.shown().into()))
}

pub(super) async fn list(call: Call<'_>) -> Result<Response, Error> {
    call.list("role/")
}

pub(super) async fn delete(call: Call<'_>) -> Result<Response, Error> {
    let name = call.name("name")?;
    call.storage.delete(&record_name(name)).await?;
    Ok(Response::Empty)
}

#[cfg(test)]
mod tests {
    use super::*;
    use kallisto_api::json;

    fn role(body: &str) -> Result<ClusterAccess, Error> {
        let mut role = ClusterAccess::named("r");
        role.take(Fields::new(&json::parse_object(body.as_bytes()).unwrap()))?;
        role.check().map(|()| role)
    }

    #[test]
    fn a_role_reads_back_as_it_was_written() {
        let written = role(
            r#"{"allowed_kubernetes_namespaces":"a,b","allowed_kubernetes_namespace_selector":"{\"matchLabels\":{\"team\":\"red\"}}",
                "generated_role_rules":"rules:\n- apiGroups: [\"\"]\n  resources: [pods]\n  verbs: [list]","kubernetes_role_type":"clusterrole",
                "token_default_ttl":"10m","token_max_ttl":"1h","token_default_audiences":["x"],"extra_labels":{"a":"b"},
                "extra_annotations":"c=d","name_template":"v-{{random 12}}"}"#,
        )
        .unwrap();
        let mut again = ClusterAccess::named("r");
        again.take(Fields::new(&written.shown())).unwrap();
        assert_eq!(again, written);
        assert_eq!(written.admits("a"), Some(true));
        assert_eq!(written.admits("c"), None);
        assert!(written.admits_labels(&[("team", "red")].into()).unwrap());
        assert_eq!(written.shown()["token_max_ttl"], 3600_u64.into());
        let scalars = role(
            r#"{"allowed_kubernetes_namespaces":"*","service_account_name":"a","extra_labels":{"tier":1,"on":true}}"#,
        );
        let labels = scalars.unwrap().labels;
        assert_eq!((&labels["tier"], &labels["on"]), (&"1".into(), &"true".into()));
    }

    #[test]
    fn what_cannot_be_is_refused() {
        for (bad, why) in [
            (r#"{"service_account_name":"sa"}"#, "one (at least)"),
            (r#"{"allowed_kubernetes_namespaces":"*"}"#, "one (and only one)"),
            (
                r#"{"allowed_kubernetes_namespaces":"*","service_account_name":"a","kubernetes_role_name":"b"}"#,
                "one (and only one)",
            ),
            (
                r#"{"allowed_kubernetes_namespaces":"*","service_account_name":"a","token_default_ttl":"2h","token_max_ttl":"1h"}"#,
                "token_default_ttl 2h0m0s cannot be greater than token_max_ttl 1h0m0s",
            ),
            (
                r#"{"allowed_kubernetes_namespaces":"*","kubernetes_role_name":"a","kubernetes_role_type":"x"}"#,
                "kubernetes_role_type must be",
            ),
            (
                r#"{"allowed_kubernetes_namespaces":"a/b","service_account_name":"a"}"#,
                "no name of a",
            ),
            (
                r#"{"allowed_kubernetes_namespaces":"*","service_account_name":"a/token"}"#,
                "no name of",
            ),
            (
                r#"{"allowed_kubernetes_namespaces":"*","kubernetes_role_name":"../x"}"#,
                "no name of",
            ),
            (
                r#"{"allowed_kubernetes_namespace_selector":"{}","service_account_name":"a"}"#,
                "LabelSelector",
            ),
            (
                r#"{"allowed_kubernetes_namespaces":"*","generated_role_rules":"{}"}"#,
                "Policy object",
            ),
            (
                r#"{"allowed_kubernetes_namespaces":"*","generated_role_rules":"{\"rules\":[{\"verbs\":[\"get\"],\"x\":[]}]}"}"#,
                "Policy object",
            ),
            (
                r#"{"allowed_kubernetes_namespaces":"*","kubernetes_role_name":"a","extra_labels":{"app.kubernetes.io/managed-by":"me"}}"#,
                "is set by this server",
            ),
            (
                r#"{"allowed_kubernetes_namespaces":"*","kubernetes_role_name":"a","name_template":"{{.RoleName}}"}"#,
                "random",
            ),
        ] {
            let refused = role(bad).unwrap_err().to_string();
            assert!(refused.contains(why), "{bad}: {refused}");
        }
    }
}
