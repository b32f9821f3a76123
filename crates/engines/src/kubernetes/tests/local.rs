//! A server that is a pod of the cluster: what its configuration leaves out is what the files of the pod say.

use std::sync::Mutex;

use kallisto_engine::PodAccount;

use super::*;

const OWN: &str = "https://10.96.0.1:443";

/// A pod with this token, which was not its first one.
fn pod(token: &str, revision: u32) -> Option<PodAccount> {
    let (api_server, authorities) = (OWN.to_owned(), "PEM of the pod".to_owned());
    Some(PodAccount { api_server, token: token.into(), authorities, revision })
}

/// What a call was made with: host, authorities, revision.
type Asked = Arc<Mutex<Vec<(String, String, u64)>>>;

fn setting() -> (Setting, Asked) {
    let setting = Setting::new();
    let (server, asked) = (Arc::clone(&setting.server), Asked::default());
    let notes = Arc::clone(&asked);
    setting.mount.far_ends_do(move |call| {
        let far_end = &call.far_end;
        let host = far_end.hosts[0].0.clone();
        notes.lock().unwrap().push((host, far_end.tls.authorities.clone(), far_end.revision));
        server.answer(call)
    });
    setting.mount.ask(NOW, Operation::Delete, "config", "").unwrap();
    (setting, asked)
}

#[test]
fn a_configuration_that_says_nothing_is_that_of_the_pod() {
    let (setting, asked) = setting();
    let check = || setting.mount.ask(NOW, Operation::Read, "check", "");
    let refused = setting.asks("config", "{}").unwrap_err().to_string();
    assert!(refused.contains("missing kubernetes_host"), "{refused}");
    setting.mount.runs_in(pod("a-token-of-before", 1));
    setting.put("config", "{}");
    let record = setting.mount.record("config").unwrap();
    let stored = String::from_utf8(Json::Object(record).to_text()).unwrap();
    assert!(!stored.contains("token-of-before") && !stored.contains("PEM"), "{stored}");
    assert!(check().unwrap_err().to_string().contains("401"));
    // The file was replaced.
    setting.mount.runs_in(pod(TOKEN, 2));
    check().unwrap();
    let asked = asked.lock().unwrap().clone();
    assert!(asked.iter().all(|(host, pem, _)| host == "10.96.0.1" && pem == "PEM of the pod"));
    assert_ne!(asked[0].2, asked[1].2, "a session with the token of before is not used");
    setting.mount.runs_in(None);
    let refused = check().unwrap_err().to_string();
    assert!(refused.contains("runs in no pod"), "{refused}");
}

#[test]
fn the_token_of_the_pod_goes_to_no_other_server() {
    let (setting, asked) = setting();
    setting.mount.runs_in(pod(TOKEN, 1));
    for host in ["https://evil.example", "http://10.96.0.1:443", "https://10.96.0.1:443/evil"] {
        let refused = setting.asks("config", &format!(r#"{{"kubernetes_host":"{host}"}}"#));
        let refused = refused.unwrap_err().to_string();
        assert!(refused.contains("missing service_account_jwt"), "{refused}");
    }
    let own = format!(r#"{{"kubernetes_host":"{OWN}""#);
    let off = setting.asks("config", &format!(r#"{own},"disable_local_ca_jwt":true}}"#));
    assert!(off.unwrap_err().to_string().contains("missing service_account_jwt"));
    // What is given counts before what the pod has.
    let given = format!(
        r#"{own},"service_account_jwt":"another","kubernetes_ca_cert":"-----BEGIN CERTIFICATE-----"}}"#
    );
    setting.put("config", &given);
    let refused = setting.mount.ask(NOW, Operation::Read, "check", "").unwrap_err();
    assert!(refused.to_string().contains("401"), "{refused}");
    let asked = asked.lock().unwrap().clone();
    assert_eq!(asked.len(), 1);
    assert!(asked[0].1.starts_with("-----BEGIN"));
}
