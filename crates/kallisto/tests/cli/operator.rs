//! What operators do to a server: its keys, its seal, its durability.

use kallisto_core::json::{Json, parse};

use crate::support::{Answer, DevServer, Ran, Stub, directory, kallisto};

/// Runs a command against a server.
fn run(address: &str, stdin: &str, line: &str) -> Ran {
    let environment = [("VAULT_ADDR", address), ("VAULT_TOKEN", "root")];
    let words: Vec<&str> = line.split(' ').collect();
    kallisto(&directory(), &environment, stdin, &words)
}

/// The same, and it must succeed; what it printed, as JSON.
fn json(address: &str, stdin: &str, line: &str) -> Json {
    let ran = run(address, stdin, &format!("{line} -format=json"));
    assert_eq!(ran.code, 0, "{line}: {ran:?}");
    parse(ran.stdout.as_bytes()).unwrap()
}

fn member(json: &Json, name: &str) -> String {
    json.as_object().unwrap()[name].as_str().unwrap().to_owned()
}

fn members(json: &Json, name: &str) -> Vec<String> {
    let Json::Array(items) = &json.as_object().unwrap()[name] else { panic!("{name} is no list") };
    items.iter().map(|item| item.as_str().unwrap().to_owned()).collect()
}

#[test]
fn a_dev_server_is_a_member_with_its_name_and_addresses() {
    let server = DevServer::start(&directory());
    let ran = server.run("operator members");
    assert_eq!(ran.code, 0, "{ran:?}");
    let row: Vec<&str> = ran.stdout.lines().nth(2).unwrap().split_whitespace().collect();
    let cluster = row[2].strip_prefix("https://127.0.0.1:");
    assert!(!row[0].is_empty() && row[1] == server.address, "{row:?}");
    assert!(cluster.is_some_and(|port| port.parse::<u16>().is_ok()), "{row:?}");
    assert_eq!(row[3], "true");
}

#[test]
fn keys_change_and_the_server_seals_and_unseals() {
    let server = DevServer::start(&directory());
    let at = server.address.as_str();
    assert_eq!(run(at, "", "operator init -status").stdout, "Kallisto is initialized\n");
    assert_eq!(run(at, "", "operator init").code, 2);

    assert!(run(at, "", "operator key-status").stdout.starts_with("Key Term            1\n"));
    let rotated = run(at, "", "operator rotate").stdout;
    assert!(rotated.starts_with("Success! Rotated key\n\nKey Term            2\n"), "{rotated}");
    assert!(run(at, "", "kv put secret/a b=c").stdout.contains("version"));

    assert_eq!(run(at, "", "operator seal").stdout, "Success! Kallisto is sealed.\n");
    assert_eq!(run(at, "", "status -field=sealed").code, 2);
    assert_eq!(run(at, "", "operator seal").code, 0);
    let wrong = "AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8=";
    assert_eq!(run(at, wrong, "operator unseal -").code, 2);
    let unsealed = run(at, "", &format!("operator unseal {}", server.unseal_key));
    assert!(unsealed.stdout.contains("Sealed          false"), "{unsealed:?}");
    assert_eq!(run(at, "", "kv get -field=b secret/a").stdout, "c");

    let shares = rekeyed(at, &server.unseal_key);
    assert_eq!(run(at, "", "operator seal").code, 0);
    // Whether a share is a right one shows when there are enough.
    assert_eq!(run(at, "", &format!("operator unseal {}", server.unseal_key)).code, 0);
    assert_eq!(run(at, "", &format!("operator unseal {}", shares[0])).code, 2);
    let first = run(at, "", &format!("operator unseal {}", shares[0]));
    assert!(first.code == 0 && first.stdout.contains("Unseal Progress    1/2"), "{first:?}");
    assert!(run(at, "", "operator unseal -reset").stdout.contains("Unseal Progress    0/2"));
    for share in &shares[1..] {
        assert_eq!(run(at, &format!("{share}\n"), "operator unseal -").code, 0);
    }
    assert_eq!(run(at, "", "status -field=sealed").stdout, "false");
    root_generated(at, &shares);
}

/// Goes from one share to three, of which two are needed, and proves that they arrived.
fn rekeyed(at: &str, share: &str) -> Vec<String> {
    let started = json(at, "", "operator rekey -init -key-shares=3 -key-threshold=2 -verify");
    let nonce = member(&started, "nonce");
    assert_eq!(run(at, "", &format!("operator rekey {share}")).code, 1);
    assert_eq!(run(at, share, "operator rekey -nonce=other -").code, 2);
    let done = json(at, share, &format!("operator rekey -nonce={nonce} -"));
    let shares = members(&done, "keys_base64");
    assert_eq!(shares.len(), 3);
    let nonce = member(&done, "verification_nonce");
    let status = run(at, "", "operator rekey -status");
    assert!(status.stdout.contains(&format!("Verification Nonce       {nonce}\n")), "{status:?}");
    let half = run(at, "", &format!("operator rekey -verify -nonce={nonce} {}", shares[0]));
    assert!(half.stdout.contains("Verification Progress    1/2\n"), "{half:?}");
    let done = run(at, &shares[2], &format!("operator rekey -verify -nonce={nonce} -"));
    assert_eq!(done.stdout, "Success! The new shares replace the old ones.\n");
    let status = run(at, "", "operator rekey -status").stdout;
    assert!(status.contains("Started    false"), "{status}");
    shares
}

/// Makes a root token with a password of the client's own, and one of the server's.
fn root_generated(at: &str, shares: &[String]) {
    let own = run(at, "", "operator generate-root -generate-otp").stdout;
    assert_eq!(own.len(), 28, "{own}");
    for start in [
        format!("operator generate-root -init -otp={own}"),
        "operator generate-root -init".to_owned(),
    ] {
        let started = json(at, "", &start);
        let otp = match member(&started, "otp") {
            drawn if drawn.is_empty() => own.clone(),
            drawn => drawn,
        };
        assert_eq!(run(at, "", "operator generate-root -init").code, 2);
        let give = format!("operator generate-root -nonce={} -", member(&started, "nonce"));
        json(at, &shares[0], &give);
        let encoded = member(&json(at, &shares[1], &give), "encoded_token");
        let token =
            run(at, "", &format!("operator generate-root -decode={encoded} -otp={otp}")).stdout;
        let lookup = kallisto(
            &directory(),
            &[("VAULT_ADDR", at), ("VAULT_TOKEN", &token)],
            "",
            &["token", "lookup", "-field=policies"],
        );
        assert_eq!((lookup.code, lookup.stdout.as_str()), (0, "[root]"), "{lookup:?}");
    }
    json(at, "", "operator generate-root -init");
    assert_eq!(run(at, "", "operator generate-root -cancel").code, 0);
    assert!(run(at, "", "operator generate-root -status").stdout.contains("Started       false"));
}

#[test]
fn one_server_is_a_cluster_that_does_not_replicate() {
    let server = DevServer::start(&directory());
    let members = run(&server.address, "", "operator members");
    assert!(members.stdout.starts_with("Host Name    API Address"), "{members:?}");
    assert!(members.stdout.contains("true"), "{members:?}");
    let down = run(&server.address, "", "operator step-down");
    assert_eq!(down.stdout, format!("Success! Stepped down: {}\n", server.address));
    let peers = run(&server.address, "", "operator raft list-peers");
    let wanted = (2, "No raft cluster configuration found\n");
    assert_eq!((peers.code, peers.stderr.as_str()), wanted, "{peers:?}");
}

#[test]
fn peers_are_listed_with_their_votes() {
    let answer = r#"{"data":{"config":{"index":7,"servers":[
        {"node_id":"a","address":"10.0.0.1:8201","leader":true,"protocol_version":"3","voter":true},
        {"node_id":"bb","address":"10.0.0.2:8201","leader":false,"protocol_version":"3","voter":false}
    ]}}}"#;
    let stub = Stub::start(vec![Answer::of(200, answer)]);
    let ran = run(&stub.address, "", "operator raft list-peers");
    let wanted = "Node    Address          State       Voter\n\
                  ----    -------          -----       -----\n\
                  a       10.0.0.1:8201    leader      true\n\
                  bb      10.0.0.2:8201    follower    false\n";
    assert_eq!((ran.code, ran.stdout.as_str()), (0, wanted));
    assert_eq!(stub.asked()[0].path, "/v1/sys/storage/raft/configuration");
}

#[test]
fn durability_is_shown_and_changed() {
    let batch = r#"{"data":{"mode":"batch","ops":500,"interval_ms":20}}"#;
    for (line, answer, stdout) in [
        ("operator durability", r#"{"data":{"mode":"strict"}}"#, "Durability    strict\n"),
        (
            "operator durability",
            batch,
            "Durability    batch\nOperations    500\nInterval      20ms\n",
        ),
        (
            "operator durability -format=json",
            batch,
            "{\n  \"mode\": \"batch\",\n  \"ops\": 500,\n  \"interval_ms\": 20\n}\n",
        ),
    ] {
        let stub = Stub::start(vec![Answer::of(200, answer)]);
        let ran = run(&stub.address, "", line);
        assert_eq!((ran.code, ran.stdout.as_str()), (0, stdout), "{ran:?}");
        assert_eq!(stub.asked()[0].method, "GET");
    }
    for (line, body, stdout) in [
        (
            "operator durability strict",
            r#"{"mode":"strict"}"#,
            "Success! The durability is strict.\n",
        ),
        (
            "operator durability batch -ops=10 -interval=1.5s",
            r#"{"interval":"1.5s","mode":"batch","ops":10}"#,
            "Success! The durability is batch.\n",
        ),
        ("operator save", "", "Success! Everything acknowledged is on the disk.\n"),
        ("operator save -format=json", "", ""),
    ] {
        let stub = Stub::start(vec![Answer::of(204, "")]);
        let ran = run(&stub.address, "", line);
        assert_eq!((ran.code, ran.stdout.as_str()), (0, stdout), "{ran:?}");
        let asked = stub.asked().remove(0);
        assert_eq!((asked.method.as_str(), asked.body.as_str()), ("PUT", body), "{line}");
        assert_eq!(asked.headers["content-length"], body.len().to_string());
    }
    for line in [
        "operator durability sometimes",
        "operator durability -ops=5",
        "operator durability strict -interval=1s",
        "operator durability batch -interval=soon",
    ] {
        let stub = Stub::start(Vec::new());
        assert_eq!(run(&stub.address, "", line).code, 1, "{line}");
        assert!(stub.asked().is_empty(), "{line}");
    }
}

#[test]
fn a_server_that_is_not_reached_is_neither_initialised_nor_not() {
    for (status, code) in [(503, 1), (404, 1)] {
        let stub = Stub::start(vec![Answer::of(status, r#"{"errors":["no"]}"#)]);
        assert_eq!(run(&stub.address, "", "operator init -status").code, code);
    }
    let stub = Stub::start(vec![Answer::of(200, r#"{"initialized":false}"#)]);
    assert_eq!(run(&stub.address, "", "operator init -status").code, 2);
}

#[test]
fn a_nonce_goes_along_with_a_cancel() {
    let stub = Stub::start(vec![Answer::of(204, ""), Answer::of(204, ""), Answer::of(204, "")]);
    run(&stub.address, "", "operator generate-root -cancel -nonce=a&b");
    run(&stub.address, "", "operator rekey -cancel -nonce=n");
    run(&stub.address, "", "operator rekey -cancel -verify -target=recovery");
    let asked: Vec<String> =
        stub.asked().into_iter().map(|asked| format!("{} {}", asked.method, asked.path)).collect();
    assert_eq!(
        asked,
        [
            "DELETE /v1/sys/generate-root/attempt?nonce=a%26b",
            "DELETE /v1/sys/rekey/init?nonce=n",
            "DELETE /v1/sys/rekey-recovery-key/verify",
        ]
    );
}

#[test]
fn shares_are_never_asked_for_without_a_terminal() {
    let stub = Stub::start(Vec::new());
    for line in ["operator unseal", "operator unseal -non-interactive"] {
        let ran = run(&stub.address, "", line);
        assert_eq!(ran.code, 1, "{line}");
        assert!(ran.stderr.contains("pass - to read it from stdin"), "{ran:?}");
    }
    assert!(stub.asked().is_empty());
}
