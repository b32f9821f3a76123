//! What a certificate takes at the least: a request comes over a socket, the keys and signatures that it takes are made and checked, and as many bytes as a
//! server answers with go back. There is no HTTP but the length of a body, no JSON, no DER, no policy and no record. `measure.py --floor` asks it as it asks
//! the servers, so that its rate beside theirs says what all else costs.
//!
//! `bench-pki-floor PORT`, until it is killed. The path says what is done: it has `issue/ec`, `issue/ed25519` or `sign/ec` in it, or it is a read.

use std::net::TcpListener;
use std::sync::Arc;

use aws_lc_rs::rand::SystemRandom;
use aws_lc_rs::signature::{
    ECDSA_P256_SHA256_ASN1, ECDSA_P256_SHA256_ASN1_SIGNING, EcdsaKeyPair, Ed25519KeyPair,
    KeyPair as _, UnparsedPublicKey,
};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

/// Threads, as many as the servers have here.
const THREADS: usize = 2;
/// Bytes that are signed: about those of a certificate and of a request.
const CERTIFICATE_BYTES: usize = 420;
const REQUEST_BYTES: usize = 230;
/// Bytes of answers, as the servers have them.
const ISSUED_BYTES: usize = 2_500;
const SIGNED_BYTES: usize = 2_200;
const READ_BYTES: usize = 400;
/// Longest input that is kept.
const INPUT_BYTES_MAX: usize = 64 << 10;

/// The CA, and a client's request with its signature.
struct Parties {
    ca: EcdsaKeyPair,
    client: Vec<u8>,
    request_signature: Vec<u8>,
}

impl Parties {
    fn make() -> Self {
        let new = || EcdsaKeyPair::generate(&ECDSA_P256_SHA256_ASN1_SIGNING).expect("a key");
        let client = new();
        let signature = client.sign(&SystemRandom::new(), &[7; REQUEST_BYTES]).expect("a signature");
        Self {
            ca: new(),
            client: client.public_key().as_ref().to_vec(),
            request_signature: signature.as_ref().to_vec(),
        }
    }

    /// Does what a request takes, and says how long its answer is.
    fn answer(&self, path: &[u8]) -> usize {
        let has = |what: &[u8]| path.windows(what.len()).any(|part| part == what);
        let mut certificate = [1; CERTIFICATE_BYTES];
        let length = if has(b"issue/ec") {
            let key = EcdsaKeyPair::generate(&ECDSA_P256_SHA256_ASN1_SIGNING).expect("a key");
            certificate[..65].copy_from_slice(key.public_key().as_ref());
            ISSUED_BYTES
        } else if has(b"issue/ed25519") {
            let key = Ed25519KeyPair::generate().expect("a key");
            certificate[..32].copy_from_slice(key.public_key().as_ref());
            ISSUED_BYTES
        } else if has(b"sign/ec") {
            UnparsedPublicKey::new(&ECDSA_P256_SHA256_ASN1, &self.client)
                .verify(&[7; REQUEST_BYTES], &self.request_signature)
                .expect("the signature holds");
            SIGNED_BYTES
        } else {
            return READ_BYTES;
        };
        let signature = self.ca.sign(&SystemRandom::new(), &certificate).expect("a signature");
        assert!(!signature.as_ref().is_empty());
        length
    }
}

/// The length of the first request of an input, head and body; `None` while it has not come whole.
fn length_of_first(input: &[u8]) -> Option<usize> {
    let head = input.windows(4).position(|part| part == b"\r\n\r\n")? + 4;
    let name = b"Content-Length: ";
    let body = match input[..head].windows(name.len()).position(|part| part == name) {
        None => 0,
        Some(at) => {
            let digits = input[at + name.len()..head].iter().take_while(|byte| byte.is_ascii_digit());
            digits.fold(0, |number, digit| number * 10 + usize::from(digit - b'0'))
        }
    };
    (input.len() >= head + body).then_some(head + body)
}

async fn serve(mut stream: TcpStream, parties: Arc<Parties>) -> std::io::Result<()> {
    stream.set_nodelay(true)?;
    let mut input = Vec::with_capacity(INPUT_BYTES_MAX);
    let mut answers = Vec::new();
    while stream.read_buf(&mut input).await? > 0 && input.len() < INPUT_BYTES_MAX {
        while let Some(length) = length_of_first(&input) {
            let path = input.split(|byte| *byte == b'\r').next().unwrap_or_default();
            let body = parties.answer(path);
            // What the client looks for in an answer.
            let what = b"BEGIN CERTIFICATE PRIVATE KEY Root vvvv 0";
            answers.extend_from_slice(format!("HTTP/1.1 200 OK\r\ncontent-length: {body}\r\n\r\n").as_bytes());
            answers.extend_from_slice(what);
            answers.resize(answers.len() + body - what.len(), b'x');
            input.drain(..length);
        }
        stream.write_all(&answers).await?;
        answers.clear();
    }
    Ok(())
}

fn main() -> std::io::Result<()> {
    let port: u16 = std::env::args().nth(1).and_then(|port| port.parse().ok()).expect("a port");
    let listener = TcpListener::bind(("127.0.0.1", port))?;
    listener.set_nonblocking(true)?;
    let parties = Arc::new(Parties::make());
    let threads = (0..THREADS).map(|_| {
        let (listener, parties) = (listener.try_clone()?, Arc::clone(&parties));
        Ok(std::thread::spawn(move || -> std::io::Result<()> {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_io().build()?;
            let local = tokio::task::LocalSet::new();
            local.block_on(&runtime, async move {
                let listener = tokio::net::TcpListener::from_std(listener)?;
                loop {
                    let (stream, _) = listener.accept().await?;
                    let parties = Arc::clone(&parties);
                    tokio::task::spawn_local(async move { serve(stream, parties).await });
                }
            })
        }))
    });
    for thread in threads.collect::<std::io::Result<Vec<_>>>()? {
        thread.join().expect("a thread that serves")?;
    }
    Ok(())
}
