//! `service_registration "kubernetes"`: where this server says what it is. Names in the environment win over the stanza, as in Vault: a pod is told
//! its own there.
//!
//! It is checked that these can be an object's name and a namespace's, since they become parts of a path of the API server.

use std::net::IpAddr;
use std::path::PathBuf;

use super::error::Error;
use super::general::environment_first;
use super::model::PodConfig;
use super::section::ConfigSection;
use super::storage::last;
use kallisto_command::config::Environment;

/// Where a pod has the files of its service account when nobody says.
const SERVICE_ACCOUNT_DIR_DEFAULT: &str = "/var/run/secrets/kubernetes.io/serviceaccount";
/// Longest name of an object (RFC 1123, as Kubernetes takes it).
const NAME_BYTES_MAX: usize = 253;

/// The pod to label, if the configuration asks for that.
pub(super) fn read(
    top: &mut ConfigSection<'_>,
    environment: &Environment<'_>,
    warnings: &mut Vec<String>,
) -> Result<Option<PodConfig>, Error> {
    let Some((kind, mut stanza)) = last(top.labelled("service_registration")?)? else {
        return Ok(None);
    };
    if kind != "kubernetes" {
        let place = stanza.place();
        warnings.push(format!(
            "{place}: service_registration {kind:?} is ignored: only \"kubernetes\" is there"
        ));
        return Ok(None);
    }
    let mut name = |key: &'static str, variable: &str| {
        let found = environment_first(environment, variable, stanza.raw_value(key)?);
        let Some(raw) = found else {
            return Err(Error::Missing(format!(
                "service_registration \"kubernetes\" needs {key}, or VAULT_{variable} in the environment"
            )));
        };
        match is_object_name(raw.expose()?) {
            true => raw.text(),
            false => Err(raw.refuse("expected the name of an object of Kubernetes")),
        }
    };
    let namespace = name("namespace", "K8S_NAMESPACE")?;
    let pod = name("pod_name", "K8S_POD_NAME")?;
    stanza.finish(&[], warnings)?;
    let Some(api_server) = api_server(environment) else {
        return Err(Error::Missing(
            "service_registration \"kubernetes\" needs a pod: KUBERNETES_SERVICE_HOST and \
             KUBERNETES_SERVICE_PORT are not in the environment"
                .to_owned(),
        ));
    };
    Ok(Some(PodConfig { api_server, namespace, pod }))
}

/// The directory with the token and the authority of this pod's service account.
pub(super) fn service_account_dir(environment: &Environment<'_>) -> PathBuf {
    let given = environment.value("K8S_SERVICE_ACCOUNT_DIR");
    PathBuf::from(given.unwrap_or_else(|| SERVICE_ACCOUNT_DIR_DEFAULT.to_owned()))
}

/// The URL of the API server, as every pod is told it; `None` outside of a cluster.
pub(super) fn api_server(environment: &Environment<'_>) -> Option<String> {
    let host = environment.plain("KUBERNETES_SERVICE_HOST")?;
    let port: u16 = environment.plain("KUBERNETES_SERVICE_PORT")?.parse().ok()?;
    let is_name = host.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '-' | '.'));
    match host.parse::<IpAddr>() {
        Ok(IpAddr::V6(address)) => Some(format!("https://[{address}]:{port}")),
        Ok(IpAddr::V4(_)) => Some(format!("https://{host}:{port}")),
        Err(_) => is_name.then(|| format!("https://{host}:{port}")),
    }
}

fn is_object_name(text: &str) -> bool {
    let fits = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit();
    (1..=NAME_BYTES_MAX).contains(&text.len())
        && text.bytes().all(|byte| fits(byte) || matches!(byte, b'-' | b'.'))
        && text.split('.').all(|part| {
            let ends = (part.as_bytes().first(), part.as_bytes().last());
            matches!(ends, (Some(first), Some(last)) if fits(*first) && fits(*last))
        })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_names_of_objects_become_parts_of_a_path() {
        for good in ["kallisto-0", "a", "kube-system", "a.b-c.d0"] {
            assert!(is_object_name(good), "{good}");
        }
        let long = "a".repeat(NAME_BYTES_MAX + 1);
        for bad in ["", "A", "..", "a/..", "a..b", "-a", "a-", ".a", "a%2f", "a b", &long] {
            assert!(!is_object_name(bad), "{bad}");
        }
    }

    #[test]
    fn the_api_server_is_where_the_environment_says() {
        let of = |host: &'static str, port: &'static str| {
            api_server(&Environment::of(move |name| match name {
                "KUBERNETES_SERVICE_HOST" => Some(host.to_owned()),
                "KUBERNETES_SERVICE_PORT" => Some(port.to_owned()),
                _ => None,
            }))
        };
        assert_eq!(of("10.96.0.1", "443").as_deref(), Some("https://10.96.0.1:443"));
        assert_eq!(of("fd00::1", "6443").as_deref(), Some("https://[fd00::1]:6443"));
        assert_eq!(of("api.example", "443").as_deref(), Some("https://api.example:443"));
        for (host, port) in [("", "443"), ("a", ""), ("a", "https"), ("a@b", "443"), ("a/b", "1")] {
            assert_eq!(of(host, port), None, "{host} {port}");
        }
    }
}
