//! The pod of Kubernetes that the server runs in, if it does: what engines use where a configuration names no token and no authority of its own.
//!
//! Invariant: the token of the pod is for the API server of the pod's own cluster, and is sent to nobody else. Whoever may configure an engine
//! could have it sent to a server of his otherwise, and read the server's own rights from it.

use std::sync::Arc;

use secrecy::SecretString;

/// Names by which every pod finds the API server of its cluster, on the port of `https`.
const CLUSTER_NAMES: [&str; 4] = [
    "kubernetes",
    "kubernetes.default",
    "kubernetes.default.svc",
    "kubernetes.default.svc.cluster.local",
];

/// What a server knows of its pod.
pub trait Pod: Send + Sync {
    /// Its service account as it is now; `None` where the server runs in no pod, or the files are not there.
    fn account(&self) -> Option<Arc<PodAccount>>;
}

/// No pod.
#[derive(Clone, Copy, Debug, Default)]
pub struct NoPod;

impl Pod for NoPod {
    fn account(&self) -> Option<Arc<PodAccount>> {
        None
    }
}

/// The service account of a pod.
pub struct PodAccount {
    /// URL of the API server: `https://`, a host and a port.
    pub api_server: String,
    /// What shows who asks. It ends, and is replaced before.
    pub token: SecretString,
    /// Whom to believe, as PEM.
    pub authorities: String,
    /// Counts the tokens and authorities there were so far.
    pub revision: u32,
}

impl PodAccount {
    /// Whether a URL is one of the pod's own API server.
    pub fn is_api_server(&self, url: &str) -> bool {
        let Some(own) = authority(&self.api_server) else { return false };
        authority(url).is_some_and(|(host, port)| {
            let is_named = CLUSTER_NAMES.contains(&host.as_str()) && port == 443;
            is_named || (host, port) == own
        })
    }
}

impl std::fmt::Debug for PodAccount {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("PodAccount").field("api_server", &self.api_server).finish_non_exhaustive()
    }
}

/// Host and port of a URL of `https` that has nothing else.
fn authority(url: &str) -> Option<(String, u16)> {
    let authority = url.trim_end_matches('/').strip_prefix("https://")?;
    if authority.contains(['/', '@', '?', '#', '\\']) {
        return None;
    }
    let (host, port) = match authority.rsplit_once(':') {
        Some((host, port)) if !port.contains(']') => (host, port.parse().ok()?),
        _ => (authority, 443),
    };
    Some((host.to_ascii_lowercase(), port))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_token_of_a_pod_is_for_the_api_server_of_its_cluster() {
        let account = |api_server: &str| PodAccount {
            api_server: api_server.to_owned(),
            token: "canary".into(),
            authorities: String::new(),
            revision: 0,
        };
        let own = account("https://10.96.0.1:443");
        for url in [
            "https://10.96.0.1",
            "https://10.96.0.1:443/",
            "https://kubernetes.default.svc",
            "https://Kubernetes.default.svc.cluster.local:443",
            "https://kubernetes",
        ] {
            assert!(own.is_api_server(url), "{url}");
        }
        for url in [
            "http://10.96.0.1:443",
            "https://10.96.0.1:6443",
            "https://10.96.0.1@evil.example",
            "https://kubernetes.default.svc.evil.example",
            "https://kubernetes.default.svc:8443",
            "https://10.96.0.1/proxy",
            "https://evil.example#10.96.0.1",
            "https://",
            "",
        ] {
            assert!(!own.is_api_server(url), "{url}");
        }
        let six = account("https://[fd00::1]:443");
        assert!(six.is_api_server("https://[fd00::1]") && !six.is_api_server("https://[fd00::2]"));
        assert!(!format!("{own:?}").contains("canary"));
    }
}
