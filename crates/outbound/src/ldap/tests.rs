//! Directories that answer, refuse and lie.

use std::time::Duration;

use super::*;
use kallisto_engine::AllowedAddresses;
use kallisto_engine::far_end::{FarEndPool, FarEndProtocol, FarEndTls, MissingEntry};
use secrecy::SecretString;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;

use super::wire::tests::{controlled, nested};

const BOUND: &[u8] = b"\x30\x0c\x02\x01\x01\x61\x07\x0a\x01\x00\x04\x00\x04\x00";
const REFUSED: &[u8] = b"\x30\x0c\x02\x01\x01\x61\x07\x0a\x01\x31\x04\x00\x04\x00";
/// An entry `cn=a` with `Cn: a`, and the end of the search.
const FOUND: &[u8] =
    b"\x30\x18\x02\x01\x02\x64\x13\x04\x04cn=a\x30\x0b\x30\x09\x04\x02Cn\x31\x03\x04\x01a\
    \x30\x0c\x02\x01\x02\x65\x07\x0a\x01\x00\x04\x00\x04\x00";

fn far_end(port: u16) -> (FarEnd, FarEndLogin) {
    let login = FarEndLogin { user: "cn=b".into(), password: SecretString::from("pw") };
    let far_end = FarEnd {
        mount: "m".into(),
        name: "n".into(),
        revision: 1,
        hosts: vec![("127.0.0.1".into(), port)],
        addresses: AllowedAddresses::default(),
        connect_secs: 5,
        protocol: FarEndProtocol::Ldap { login: login.clone(), starts_tls: false },
        tls: FarEndTls::default(),
        pool: FarEndPool::default(),
    };
    (far_end, login)
}

/// What comes of a login and a search at a directory that gives these answers, one after each request.
fn asked(answers: &[&[u8]]) -> Result<FarEndAnswer, FarEndFailure> {
    searched(answers, root())
}

fn searched(answers: &[&[u8]], search: LdapSearch) -> Result<FarEndAnswer, FarEndFailure> {
    worked(answers, vec![LdapOperation::Search(search)])
}

fn worked(
    answers: &[&[u8]],
    operations: Vec<LdapOperation>,
) -> Result<FarEndAnswer, FarEndFailure> {
    let answers: Vec<Vec<u8>> = answers.iter().map(|answer| answer.to_vec()).collect();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let (far_end, login) = far_end(listener.local_addr().unwrap().port());
        let directory = tokio::spawn(async move {
            let (mut peer, _) = listener.accept().await.unwrap();
            let mut request = [0; 4096];
            for answer in &answers {
                // Whoever was told nonsense may have gone.
                if peer.read(&mut request).await.is_ok_and(|count| count > 0) {
                    let _ = peer.write_all(answer).await;
                }
            }
        });
        let search = LdapWork { operations, missing: MissingEntry::Fails };
        let mut session =
            open(&far_end, &login, false, Instant::now() + Duration::from_secs(5)).await?;
        let outcome = session.run(&FarEndWork::Ldap(search)).await;
        directory.abort();
        outcome
    })
}

#[test]
fn a_search_finds_what_the_directory_says() {
    let found = asked(&[BOUND, FOUND]).unwrap();
    let attributes = BTreeMap::from([("cn".to_owned(), vec!["a".to_owned()])]);
    let entries = vec![LdapEntry { dn: "cn=a".into(), attributes }];
    assert_eq!(found, FarEndAnswer::Entries { entries, is_whole: true });
}

#[test]
fn a_directory_that_refuses_or_lies_is_told_of() {
    let refused = asked(&[REFUSED]).unwrap_err();
    let text = "127.0.0.1: LDAP result 49 invalidCredentials";
    assert_eq!(refused, FarEndFailure::LoginRefused(text.into()));
    let lies: [&[&[u8]]; 3] = [
        &[b"HTTP/1.0 400 Bad Request\r\n\r\n"],
        &[b"\x30\x84\xff\xff\xff\xff"],
        &[b"\x30\x03\x02\x01\x01"],
    ];
    for lie in lies {
        let failure = asked(lie).unwrap_err();
        assert!(matches!(failure, FarEndFailure::Unreachable(_)), "{failure:?}");
    }
    let nested: &[&[u8]] = &[BOUND, b"\x30\x06\x02\x01\x02\x64\x01\x30"];
    let failure = asked(nested).unwrap_err();
    assert!(matches!(failure, FarEndFailure::Unknown(_)), "{failure:?}");
}

#[test]
fn a_page_that_is_nested_without_end_is_refused() {
    let paged = LdapSearch { page_size: 10, ..root() };
    let done = controlled(2, b"1.2.840.113556.1.4.319", Some(&nested(100_000)));
    let failure = searched(&[BOUND, &done], paged).unwrap_err();
    assert!(matches!(failure, FarEndFailure::Unknown(_)), "{failure:?}");
}

#[test]
fn an_answer_to_something_else_ends_the_session() {
    // The end of a bind, and an entry, for the other request.
    let bind_again: &[&[u8]] =
        &[BOUND, b"\x30\x0c\x02\x01\x02\x61\x07\x0a\x01\x00\x04\x00\x04\x00"];
    let failure = asked(bind_again).unwrap_err();
    assert!(matches!(failure, FarEndFailure::Unknown(_)), "{failure:?}");
    let entry_for_a_bind: &[&[u8]] = &[b"\x30\x0c\x02\x01\x01\x64\x07\x04\x03abc\x30\x00"];
    let failure = asked(entry_for_a_bind).unwrap_err();
    assert!(matches!(failure, FarEndFailure::Unreachable(_)), "{failure:?}");
}

/// The result of bind 1 with this code.
fn bound_with(code: u8) -> Vec<u8> {
    let mut answer = BOUND.to_vec();
    answer[9] = code;
    answer
}

#[test]
fn one_code_says_that_a_password_is_wrong() {
    for (code, expected) in [
        (49, "LoginRefused"),
        (48, "LoginBarred"),
        (32, "LoginBarred"),
        (1, "Unreachable"),
        (8, "Unreachable"),
        (13, "Unreachable"),
        (19, "Unreachable"),
        (51, "Unreachable"),
        (52, "Unreachable"),
        (53, "Unreachable"),
        (80, "Unreachable"),
    ] {
        let failure = asked(&[&bound_with(code)]).unwrap_err();
        assert!(format!("{failure:?}").starts_with(expected), "{code}: {failure:?}");
    }
}

#[test]
fn a_refused_change_says_whether_it_may_have_been_done() {
    let changed =
        |id: u8, code: u8| [0x30, 12, 2, 1, id, 0x6b, 7, 10, 1, code, 4, 0, 4, 0].to_vec();
    let delete = || LdapOperation::Delete { dn: "cn=a".into() };
    for (codes, expected) in [
        (&[68][..], "NothingDone"),
        (&[50], "NothingDone"),
        (&[0, 68], "Refused"),
        (&[51], "Unknown"),
        (&[52], "Unknown"),
        (&[80], "Unknown"),
        (&[0, 3], "Unknown"),
    ] {
        let answers = codes.iter().zip(2..).map(|(code, id)| changed(id, *code));
        let answers: Vec<Vec<u8>> = std::iter::once(BOUND.to_vec()).chain(answers).collect();
        let answers: Vec<&[u8]> = answers.iter().map(Vec::as_slice).collect();
        let operations = codes.iter().map(|_| delete()).collect();
        let failure = worked(&answers, operations).unwrap_err();
        assert!(format!("{failure:?}").starts_with(expected), "{codes:?}: {failure:?}");
    }
}

#[test]
fn a_host_that_hangs_or_is_busy_is_passed_over() {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let mut hosts = Vec::new();
        // One says nothing, two say that they are busy or unavailable, one answers.
        for answer in [None, Some(bound_with(51)), Some(bound_with(52)), Some(BOUND.to_vec())] {
            let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
            hosts.push(("127.0.0.1".to_owned(), listener.local_addr().unwrap().port()));
            tokio::spawn(async move {
                loop {
                    let (mut peer, _) = listener.accept().await.unwrap();
                    let mut request = [0; 4096];
                    while peer.read(&mut request).await.is_ok_and(|count| count > 0) {
                        if let Some(answer) = &answer {
                            peer.write_all(answer).await.unwrap();
                        }
                    }
                }
            });
        }
        let (far_end, login) = far_end(0);
        let far_end = FarEnd { connect_secs: 2, hosts: hosts.clone(), ..far_end };
        let until = || Instant::now() + Duration::from_secs(20);
        assert!(open(&far_end, &login, false, until()).await.is_ok());
        let far_end = FarEnd { hosts: hosts[..1].to_vec(), ..far_end };
        let failure = open(&far_end, &login, false, until()).await.err().unwrap();
        assert!(failure.words().ends_with("it did not answer in time"), "{failure}");
    });
}
