//! The driver against databases that answer without end, and write what other failures are called.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use kallisto_engine::AllowedAddresses;
use kallisto_engine::far_end::{FarEndPool, FarEndProtocol, FarEndTls};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;

use super::*;

/// Bytes that a flood has before it ends: more than the buffers of any connection.
const FLOOD_BYTES: usize = 64 << 20;

/// What the database answers to a text.
enum Answer {
    Whole(Vec<u8>),
    /// The same bytes again and again.
    Flood(Vec<u8>),
}

/// A database for one connection: what it was asked, and how much of floods it got rid of.
#[derive(Default)]
struct FakeDatabase {
    heard: Mutex<Vec<String>>,
    flooded: AtomicUsize,
}

impl FakeDatabase {
    async fn serve(&self, mut stream: TcpStream, answer: impl Fn(&str, usize) -> Answer) {
        let length = stream.read_u32().await.unwrap() as usize;
        stream.read_exact(&mut vec![0; length - 4]).await.unwrap();
        let greeting = [message(b'R', &[0; 4]), message(b'Z', b"I")].concat();
        stream.write_all(&greeting).await.unwrap();
        while let Ok(b'Q') = stream.read_u8().await {
            let length = stream.read_u32().await.unwrap() as usize;
            let mut text = vec![0; length - 4];
            stream.read_exact(&mut text).await.unwrap();
            let text = String::from_utf8_lossy(&text[..length - 5]).into_owned();
            let times = self.times(&text);
            self.heard.lock().unwrap().push(text.clone());
            match answer(&text, times) {
                Answer::Whole(bytes) => stream.write_all(&bytes).await.unwrap(),
                Answer::Flood(bytes) => {
                    while self.flooded.fetch_add(bytes.len(), Ordering::Relaxed) < FLOOD_BYTES {
                        if stream.write_all(&bytes).await.is_err() {
                            return;
                        }
                    }
                    return;
                }
            }
        }
    }

    fn times(&self, text: &str) -> usize {
        self.heard.lock().unwrap().iter().filter(|heard| *heard == text).count()
    }
}

fn message(tag: u8, body: &[u8]) -> Vec<u8> {
    let length = u32::try_from(body.len() + 4).unwrap();
    [&[tag], &length.to_be_bytes()[..], body].concat()
}

fn done() -> Answer {
    Answer::Whole([message(b'C', b"DO\0"), message(b'Z', b"T")].concat())
}

fn refuse(state: &str, words: &str) -> Answer {
    let error = message(b'E', format!("SERROR\0C{state}\0M{words}\0\0").as_bytes());
    Answer::Whole([error, message(b'Z', b"E")].concat())
}

/// A column called `c`, of texts.
fn columns() -> Vec<u8> {
    let column = [&b"c\0"[..], &[0; 6], &[0, 0, 0, 25, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0, 0]];
    message(b'T', &[&[0, 1], &column.concat()[..]].concat())
}

fn row(text: &str) -> Vec<u8> {
    let length = u32::try_from(text.len()).unwrap();
    message(b'D', &[&[0, 1], &length.to_be_bytes()[..], text.as_bytes()].concat())
}

/// Opens a session with such a database, and runs a statement called `work`; what the database saw.
fn run(
    needs_writable: bool,
    answer: impl Fn(&str, usize) -> Answer + Send + 'static,
) -> (Result<FarEndAnswer, FarEndFailure>, Arc<FakeDatabase>) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let listener = TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let database = Arc::new(FakeDatabase::default());
        let serving = Arc::clone(&database);
        tokio::spawn(async move {
            let (stream, _) = listener.accept().await.unwrap();
            serving.serve(stream, answer).await;
        });
        let login = FarEndLogin { user: "u".into(), password: "p".into() };
        let start = PostgresStart { settings: Vec::new(), needs_writable };
        let far_end = FarEnd {
            mount: "m".into(),
            name: "n".into(),
            revision: 1,
            hosts: vec![("127.0.0.1".into(), port)],
            addresses: AllowedAddresses::default(),
            connect_secs: 30,
            protocol: FarEndProtocol::Postgres {
                login: login.clone(),
                database: String::new(),
                start: start.clone(),
            },
            tls: FarEndTls { usage: TlsUse::Never, ..FarEndTls::default() },
            pool: FarEndPool { open_max: 1, idle_max: 1, lifetime_secs: 0 },
        };
        let until = Instant::now() + Duration::from_secs(30);
        let outcome = match open(&far_end, &login, ("", &start), until).await {
            Ok(mut session) => {
                let work = SqlWork { statements: vec!["work".into()], exclusive: String::new() };
                session.run(&FarEndWork::Sql(work)).await
            }
            Err(failure) => Err(failure),
        };
        (outcome, database)
    })
}

#[test]
fn what_a_database_writes_does_not_say_which_failure_it_is() {
    for words in [
        "no (SQLSTATE 40001) is this",
        "tuple concurrently updated",
        "no (SQLSTATE 53300) is this",
        "(SQLSTATE 57P01)",
    ] {
        let (outcome, database) = run(false, move |text, _| match text {
            "work" => refuse("P0001", words),
            _ => done(),
        });
        let failure = outcome.unwrap_err();
        assert!(matches!(&failure, FarEndFailure::NothingDone(_)), "{words}: {failure:?}");
        assert!(failure.words().contains(words), "{failure:?}");
        assert_eq!(database.times("work"), 1, "{words}");
    }
}

#[test]
fn a_race_that_was_lost_is_tried_again_and_a_server_that_cannot_is_left() {
    for (state, words) in
        [("40001", "could not"), ("40P01", "deadlock"), ("XX000", "tuple concurrently updated")]
    {
        let (outcome, database) = run(false, move |text, times| match text {
            "work" if times == 0 => refuse(state, words),
            _ => done(),
        });
        assert_eq!(outcome, Ok(FarEndAnswer::Done), "{state}");
        assert_eq!(database.times("work"), 2, "{state}");
    }
    for state in ["53300", "57P01", "58030", "25006"] {
        let (outcome, database) = run(false, move |text, _| match text {
            "work" => refuse(state, "no"),
            _ => done(),
        });
        assert!(matches!(&outcome, Err(FarEndFailure::Unreachable(_))), "{state}: {outcome:?}");
        assert_eq!((database.times("work"), database.times("ROLLBACK")), (1, 1), "{state}");
    }
}

#[test]
fn rows_are_told_as_texts() {
    let (outcome, _) = run(false, |text, _| match text {
        "work" => {
            let end = [message(b'C', b"SELECT 2\0"), message(b'Z', b"T")].concat();
            let null = message(b'D', &[0, 1, 0xff, 0xff, 0xff, 0xff]);
            Answer::Whole([columns(), row("a"), null, end].concat())
        }
        _ => done(),
    });
    let rows = vec![vec![Some("a".to_owned())], vec![None]];
    assert_eq!(outcome, Ok(FarEndAnswer::Rows(rows)));
}

/// Each of these was read to its end, into memory, before anybody looked how long it was.
#[test]
fn an_answer_without_an_end_is_not_read_past_its_limit() {
    let rows = || columns().into_iter().chain(row(&"x".repeat(100))).collect::<Vec<u8>>();
    // One row that says that it is a GiB long: the head of a message, and then what looks like its bytes.
    let long = || [&b"D"[..], &(1_u32 << 30).to_be_bytes(), &[b'x'; 1 << 10]].concat();
    let notices = || message(b'N', b"SNOTICE\0C00000\0Mhear, hear\0\0");
    let floods: [(&str, Vec<u8>); 5] = [
        ("work", rows()),
        ("work", long()),
        ("work", notices()),
        ("COMMIT", rows()),
        ("SHOW transaction_read_only", rows()),
    ];
    for (asked, flood) in floods {
        let (outcome, database) = run(true, move |text, _| match text == asked {
            true => Answer::Flood(flood.clone()),
            false => done(),
        });
        let failure = outcome.unwrap_err();
        let is_open_for_doubt = matches!(&failure, FarEndFailure::Unknown(_));
        let is_unreachable = matches!(&failure, FarEndFailure::Unreachable(_));
        assert!(is_open_for_doubt || (is_unreachable && asked.starts_with("SHOW")), "{failure:?}");
        assert!(failure.words().contains(TOO_LONG), "{asked}: {failure:?}");
        let flooded = database.flooded.load(Ordering::Relaxed);
        assert!(flooded < FLOOD_BYTES, "{asked}: {flooded} bytes were read");
    }
}
