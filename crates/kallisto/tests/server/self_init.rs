//! A server whose configuration says what it holds from its first start on.

use data_encoding::HEXLOWER;

use crate::support::{Directory, Server, refuse, until};

const SEAL: &str =
    "seal \"static\" {\n  current_key_id = \"1\"\n  current_key = \"env://SEAL_KEY\"\n}\n";
/// Somebody who may do everything, and a secret that he may read.
const ASKED: &str = r#"
initialize "identity" {
  request "policy" {
    operation = "update"
    path      = "sys/policies/acl/all"
    data      = { policy = "path \"*\" { capabilities = [\"create\", \"read\", \"update\", \"delete\", \"list\", \"sudo\"] }" }
  }
  request "userpass" {
    operation = "create"
    path      = "sys/auth/userpass"
    data      = { type = "userpass" }
  }
  request "admin" {
    operation = "update"
    path      = "auth/userpass/users/admin"
    data = {
      "password" = {
        eval_type       = "string"
        eval_source     = "env"
        env_var         = "ADMIN_PASSWORD"
        require_present = true
      }
      "token_policies" = ["all"]
    }
  }
  request "login" {
    operation = "update"
    path      = "auth/userpass/login/admin"
    data = {
      password = {
        eval_type       = "string"
        eval_source     = "request"
        initialize_name = "identity"
        request_name    = "admin"
        field_selector  = ["data", "password"]
      }
    }
  }
}
initialize "secrets" {
  request "fails" {
    operation     = "read"
    path          = "nothing/here"
    allow_failure = true
  }
  request "kv" {
    operation = "update"
    path      = "sys/mounts/kv"
    data      = { type = "kv", options = { version = 2 } }
  }
  request "app" {
    operation = "update"
    path      = "kv/data/app"
    token = {
      eval_type       = "string"
      eval_source     = "response"
      initialize_name = "identity"
      request_name    = "login"
      field_selector  = ["auth", "client_token"]
    }
    data = {
      data = {
        key = {
          eval_type   = "string"
          eval_source = "file"
          path        = "FILE"
        }
        number = 7
      }
    }
  }
}
"#;

fn asked(directory: &Directory, more: &str) -> String {
    let file = directory.write("app.key", "canary-of-the-app");
    let text = ASKED.replace("FILE", &file.display().to_string());
    directory.config(&format!("{SEAL}{text}{more}"))
}

#[test]
fn a_first_start_makes_what_the_configuration_says_and_later_ones_nothing() {
    let directory = Directory::new("self-init");
    let key = HEXLOWER.encode(&(1..33).collect::<Vec<u8>>());
    let environment = [("SEAL_KEY", key.as_str()), ("ADMIN_PASSWORD", "canary-of-the-admin")];
    let config = asked(&directory, "");
    // What is missing is missed before anything is made.
    let said = refuse(&directory, &config, &environment[..1]);
    assert!(said.contains("request \"admin\": ADMIN_PASSWORD is not in the environment"), "{said}");
    let server = Server::start_with(&directory, &config, &environment);
    until("an unsealed server", || !server.is_sealed());
    let login = r#"{"password":"canary-of-the-admin"}"#;
    let token = server.anyone().put("auth/userpass/login/admin", login).at("auth.client_token");
    let read = server.client(&token).get("kv/data/app").good();
    assert_eq!(read.at("data.data.key"), "canary-of-the-app");
    assert_eq!(read.at("data.data.number"), "7");
    // No root token is left: the tokens are those of the two logins.
    let accessors = server.client(&token).send("LIST", "auth/token/accessors", "");
    assert_eq!(accessors.strings("data.keys").len(), 2, "{}", accessors.body);
    server.client(&token).put("kv/data/app", r#"{"data":{"key":"later"}}"#);
    let log = server.log();
    assert!(log.contains("the root token is revoked") && !log.contains("canary"), "{log}");
    assert!(log.contains("request \"fails\"") && log.contains("going on"), "{log}");
    server.stop();
    // The stanza stays, and so does what was written since; nothing is read that it names.
    std::fs::remove_file(directory.join("app.key")).unwrap();
    let server = Server::start_with(&directory, &config, &environment[..1]);
    until("an unsealed server", || !server.is_sealed());
    assert_eq!(server.client(&token).get("kv/data/app").good().at("data.data.key"), "later");
    server.stop();
}

#[test]
fn a_request_that_fails_ends_the_start_and_leaves_no_root_token() {
    let directory = Directory::new("self-init-fails");
    let key = HEXLOWER.encode(&(1..33).collect::<Vec<u8>>());
    let environment = [("SEAL_KEY", key.as_str()), ("ADMIN_PASSWORD", "canary-of-the-admin")];
    let more = "initialize \"last\" {\n  request \"bad\" {\n    operation = \"update\"\n    path = \"kv/nothing\"\n  }\n}\n";
    let config = asked(&directory, more);
    let said = refuse(&directory, &config, &environment);
    assert!(said.contains("initialize \"last\" request \"bad\": "), "{said}");
    assert!(said.contains("its root token revoked") && !said.contains("canary"), "{said}");
    // Whoever starts it again, a service manager for one, gets no server that holds half of it.
    let said = refuse(&directory, &config, &environment);
    assert!(said.contains("its requests did not all run"), "{said}");
    // It is initialised: what came before the failure is there, and the root token is not.
    let config = directory.config(SEAL);
    let server = Server::start_with(&directory, &config, &environment);
    until("an unsealed server", || !server.is_sealed());
    let login = r#"{"password":"canary-of-the-admin"}"#;
    let token = server.anyone().put("auth/userpass/login/admin", login).at("auth.client_token");
    let accessors = server.client(&token).send("LIST", "auth/token/accessors", "");
    assert_eq!(accessors.strings("data.keys").len(), 2, "{}", accessors.body);
    let log = server.log();
    assert!(log.contains("it holds a part of what the configuration said"), "{log}");
    server.stop();
}

#[test]
fn nobody_would_hold_unseal_shares_so_they_are_not_made() {
    let directory = Directory::new("self-init-shamir");
    let config = directory.config("initialize \"a\" {\n  request \"b\" {\n    operation = \"read\"\n    path = \"sys/mounts\"\n  }\n}\n");
    let said = refuse(&directory, &config, &[]);
    assert!(said.contains("needs a seal that opens by itself"), "{said}");
}
