//! The driver against servers that answer without end.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use kallisto_engine::AllowedAddresses;
use kallisto_engine::far_end::{FarEndPool, FarEndProtocol};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

use super::*;

/// Bytes that a flood has before it ends: more than the buffers of any connection.
const FLOOD_BYTES: usize = 64 << 20;
/// An OK packet: nothing changed, nothing more comes.
const OK: &[u8] = &[0, 0, 0, 2, 0, 0, 0];
/// The same, and another answer follows.
const OK_AND_MORE: &[u8] = &[0, 0, 0, 0x0a, 0, 0, 0];
const END: &[u8] = &[0xfe, 0, 0, 2, 0];

/// What is sent as the answer to a text: packets.
type Packets = Vec<Vec<u8>>;

/// Sends packets that follow each other; false when nobody takes them any more.
async fn send(stream: &mut TcpStream, number: &mut u8, packets: &[Vec<u8>]) -> bool {
    let mut bytes = Vec::new();
    for packet in packets {
        bytes.extend_from_slice(&u32::try_from(packet.len()).unwrap().to_le_bytes()[..3]);
        bytes.push(*number);
        bytes.extend_from_slice(packet);
        *number = number.wrapping_add(1);
    }
    stream.write_all(&bytes).await.is_ok()
}

async fn receive(stream: &mut TcpStream) -> Option<Vec<u8>> {
    let mut head = [0; 4];
    stream.read_exact(&mut head).await.ok()?;
    let mut packet = vec![0; u32::from_le_bytes([head[0], head[1], head[2], 0]) as usize];
    stream.read_exact(&mut packet).await.ok()?;
    Some(packet)
}

/// What a server of version 8 begins with, without TLS.
fn greeting() -> Vec<u8> {
    let capabilities: u32 = 0x200 | 0x2000 | 0x8000 | 0x1_0000 | 0x2_0000 | 0x8_0000;
    let capabilities = capabilities.to_le_bytes();
    let mut packet = b"\x0a8.0.0\0\x01\0\0\0saltsalt\0".to_vec();
    packet.extend_from_slice(&capabilities[..2]);
    packet.extend_from_slice(&[45, 2, 0]);
    packet.extend_from_slice(&capabilities[2..]);
    packet.extend_from_slice(&[21; 1]);
    packet.extend_from_slice(&[0; 10]);
    packet.extend_from_slice(b"saltsaltsalt\0mysql_native_password\0");
    packet
}

/// The head of an answer with one column of texts.
fn columns() -> Packets {
    let mut column = b"\x03def\0\0\0\x01c\x01c\x0c".to_vec();
    column.extend_from_slice(&[45, 0, 0, 1, 0, 0, 0xfd, 0, 0, 0, 0, 0]);
    vec![vec![1], column, END.to_vec()]
}

fn row(text: &str) -> Vec<u8> {
    [&[u8::try_from(text.len()).unwrap()], text.as_bytes()].concat()
}

/// Runs a statement called `work`, to which a server answers with these packets, and again and again with those that are a flood. What came of
/// it, and how many bytes of the flood it got rid of.
fn run(answer: Packets, flood: Packets) -> (Result<FarEndAnswer, FarEndFailure>, usize) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let listener = TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let flooded = Arc::new(AtomicUsize::new(0));
        let floods = Arc::clone(&flooded);
        let serving = tokio::spawn(async move {
            let (mut stream, _) = listener.accept().await.unwrap();
            send(&mut stream, &mut 0, &[greeting()]).await;
            receive(&mut stream).await.unwrap();
            send(&mut stream, &mut 2, &[OK.to_vec()]).await;
            while let Some(asked) = receive(&mut stream).await.filter(|asked| asked[0] != 1) {
                let mut number = 1;
                if asked != b"\x03work" {
                    send(&mut stream, &mut number, &[OK.to_vec()]).await;
                    continue;
                }
                send(&mut stream, &mut number, &answer).await;
                let bytes: usize = flood.iter().map(|packet| packet.len() + 4).sum();
                while bytes > 0 && floods.fetch_add(bytes, Ordering::Relaxed) < FLOOD_BYTES {
                    if !send(&mut stream, &mut number, &flood).await {
                        return;
                    }
                }
                if bytes > 0 {
                    return;
                }
            }
        });
        let login = FarEndLogin { user: "u".into(), password: "p".into() };
        let far_end = FarEnd {
            mount: "m".into(),
            name: "n".into(),
            revision: 1,
            hosts: vec![("127.0.0.1".into(), port)],
            addresses: AllowedAddresses::default(),
            connect_secs: 30,
            protocol: FarEndProtocol::Mysql { login: login.clone(), database: String::new() },
            tls: FarEndTls { usage: TlsUse::Never, ..FarEndTls::default() },
            pool: FarEndPool { open_max: 1, idle_max: 1, lifetime_secs: 0 },
        };
        let mut session = open(&far_end, &login, "").await.unwrap();
        let work = SqlWork { statements: vec!["work".into()], exclusive: String::new() };
        let outcome = session.run(&FarEndWork::Sql(work)).await;
        assert_eq!(session.is_closed(), outcome.is_err());
        drop(session);
        // It ends when the connection is closed, which is soon.
        serving.await.unwrap();
        (outcome, flooded.load(Ordering::Relaxed))
    })
}

#[test]
fn the_rows_of_the_first_statement_of_a_text_are_told() {
    let rows = [columns(), vec![row("a"), vec![0xfb], END.to_vec()]].concat();
    let told = vec![vec![Some("a".to_owned())], vec![None]];
    assert_eq!(run(rows.clone(), Vec::new()).0, Ok(FarEndAnswer::Rows(told.clone())));
    assert_eq!(run(vec![OK.to_vec()], Vec::new()).0, Ok(FarEndAnswer::Done));
    let more = vec![0xfe, 0, 0, 0x0a, 0];
    let followed = [columns(), vec![row("a"), vec![0xfb], more, OK.to_vec()]].concat();
    assert_eq!(run(followed, Vec::new()).0, Ok(FarEndAnswer::Rows(told)));
    let second = [vec![OK_AND_MORE.to_vec()], rows].concat();
    assert_eq!(run(second, Vec::new()).0, Ok(FarEndAnswer::Done));
}

/// All of it was read into memory before anybody looked how long it was.
#[test]
fn an_answer_without_an_end_is_not_read_past_its_limit() {
    let long = row(&"x".repeat(200));
    let second = [vec![OK_AND_MORE.to_vec()], columns()].concat();
    for answer in [columns(), second] {
        let (outcome, flooded) = run(answer, vec![long.clone(); 100]);
        assert_eq!(outcome, Err(FarEndFailure::Unknown(TOO_LONG.into())));
        assert!(flooded < FLOOD_BYTES, "{flooded} bytes were read");
    }
}
