//! ACME with instant-acme: `kallisto-acme-walk DIRECTORY AUTHORITY ADDRESS TEXTS`. Challenges are served at port 80 of ADDRESS, or as files in
//! the folder TEXTS that the name server of the walk reads. Prints one line a check.

use std::collections::HashMap;
use std::error::Error;
use std::io::{BufRead as _, BufReader, Write as _};
use std::net::TcpListener;
use std::path::PathBuf;
use std::sync::{Arc, Mutex};

use instant_acme::{
    Account, AuthorizationStatus, ChallengeType, Identifier, NewAccount, NewOrder, OrderStatus,
    RetryPolicy, RevocationReason, RevocationRequest,
};
use rustls_pki_types::CertificateDer;
use rustls_pki_types::pem::PemObject as _;

type Outcome<T> = Result<T, Box<dyn Error>>;
/// What is served, by path.
type Served = Arc<Mutex<HashMap<String, String>>>;

fn serve(listener: TcpListener, served: Served) {
    for stream in listener.incoming().flatten() {
        let mut line = String::new();
        if BufReader::new(&stream).read_line(&mut line).is_err() {
            continue;
        }
        let path = line.split(' ').nth(1).unwrap_or_default();
        let body = served.lock().unwrap().get(path).cloned().unwrap_or_default();
        let length = body.len();
        let _ = write!(&stream, "HTTP/1.1 200 OK\r\nContent-Length: {length}\r\n\r\n{body}");
    }
}

struct Walk {
    account: Account,
    served: Served,
    texts: PathBuf,
}

impl Walk {
    /// A certificate for a name, shown in one of two ways; its chain.
    async fn issue(&self, name: &str, kind: ChallengeType) -> Outcome<String> {
        let names = [Identifier::Dns(name.to_owned())];
        let mut order = self.account.new_order(&NewOrder::new(&names)).await?;
        let mut authorizations = order.authorizations();
        while let Some(authorization) = authorizations.next().await {
            let mut authorization = authorization?;
            if authorization.status != AuthorizationStatus::Pending {
                return Err("the authorization is not pending".into());
            }
            let mut challenge = authorization.challenge(kind.clone()).ok_or("no such challenge")?;
            let shown = challenge.key_authorization();
            if kind == ChallengeType::Http01 {
                let path = format!("/.well-known/acme-challenge/{}", challenge.token);
                self.served.lock().unwrap().insert(path, shown.as_str().to_owned());
            } else {
                let file = self.texts.join(format!("_acme-challenge.{name}"));
                std::fs::write(file, shown.dns_value())?;
            }
            challenge.set_ready().await?;
        }
        let status = order.poll_ready(&RetryPolicy::default()).await?;
        if status != OrderStatus::Ready {
            return Err(format!("the order is {status:?}").into());
        }
        order.finalize().await?;
        Ok(order.poll_certificate(&RetryPolicy::default()).await?)
    }
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Outcome<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [directory, authority, address, texts] = &arguments[..] else {
        return Err("usage: kallisto-acme-walk DIRECTORY AUTHORITY ADDRESS TEXTS".into());
    };
    let served = Served::default();
    let listener = TcpListener::bind((address.as_str(), 80))?;
    let shared = Arc::clone(&served);
    std::thread::spawn(move || serve(listener, shared));
    let new = NewAccount {
        contact: &["mailto:walk@example.test"],
        terms_of_service_agreed: true,
        only_return_existing: false,
    };
    let builder = Account::builder_with_root(authority)?;
    let (account, _) = builder.create(&new, directory.clone(), None).await?;
    let mut walk = Walk { account, served, texts: texts.into() };
    let first = walk.issue("i.example.test", ChallengeType::Http01).await?;
    println!("ok instant-acme issues by http-01");
    let _ = walk.account.update_key().await?;
    println!("ok instant-acme gives its account another key");
    walk.account.update_contacts(&["mailto:other@example.test"]).await?;
    let second = walk.issue("i.example.test", ChallengeType::Dns01).await?;
    if first == second {
        return Err("the same certificate".into());
    }
    println!("ok instant-acme renews by dns-01, with its new key");
    let certificate = CertificateDer::from_pem_slice(first.as_bytes())?;
    let reason = Some(RevocationReason::KeyCompromise);
    walk.account.revoke(&RevocationRequest { certificate: &certificate, reason }).await?;
    let again = RevocationRequest { certificate: &certificate, reason: None };
    let again = walk.account.revoke(&again).await.map_err(|error| error.to_string());
    if !again.is_err_and(|why| why.contains("alreadyRevoked")) {
        return Err("revoked twice".into());
    }
    println!("ok instant-acme revokes, once");
    walk.account.deactivate().await?;
    println!("ok instant-acme deactivates its account");
    Ok(())
}
