//! What reads that are written down cannot do without besides: for each read the value and, in Vault's form, the time of its version become HMACs, the record is text in
//! Kallisto's form and as long as Kallisto's, each line is hashed with the hash of the line before it, and all lines of a turn go to the file with one
//! write before the replies leave. What is the same in all records (who asks, with which policies, at which mount) is text from the start; the time of
//! day is looked at once for a turn, and an id is no random number.

use std::fs::File;
use std::io::{self, Write as _};
use std::time::{SystemTime, UNIX_EPOCH};

use aws_lc_rs::{digest, hmac};

const AUTH: &str = r#""auth":{"client_token":"hmac-sha256:1ce107bf1a767de1c4188946b5fb89c49f8320e7565b380c125b1175b1df71ae","accessor":"hmac-sha256:f8b5e724f937787b42fe83060bf1a6bbf22b1eeffa443852c6293babf177cd7d","display_name":"token","policies":["peers"],"token_policies":["peers"],"policy_results":{"allowed":true,"granting_policies":[{"name":"peers","namespace_id":"root","type":"acl"}]},"token_type":"service","token_ttl":14400,"token_issue_time":"2026-11-29T15:40:58Z"}"#;
const ASKED: &str = r#"","client_id":"LNv9ZCadbv2cTolXeS9sBPt093Yhgm8xw/GweXPMbeg=","operation":"read","mount_point":"secret/","mount_type":"kv","mount_accessor":"kv_7d78ee66","mount_running_version":"v0.2.0+builtin.kallisto","mount_class":"secret","client_token":"hmac-sha256:1ce107bf1a767de1c4188946b5fb89c49f8320e7565b380c125b1175b1df71ae","client_token_accessor":"hmac-sha256:f8b5e724f937787b42fe83060bf1a6bbf22b1eeffa443852c6293babf177cd7d","namespace":{"id":"root"},"path":"secret/data/"#;
const FROM: &str = r#"","remote_address":"127.0.0.1","remote_port":47374}"#;
const ANSWERED: &str = r#","response":{"mount_point":"secret/","mount_type":"kv","mount_accessor":"kv_7d78ee66","mount_running_plugin_version":"v0.2.0+builtin.kallisto","mount_class":"secret","#;
const COMPACT_AUTH: &str = r#""auth":{"client_token":"hmac-sha256:3119fc30ec15b29d6579bcdc888b4c06ca8d479c5833224dbc50b3ad53d2d5bb","accessor":"hmac-sha256:9fcc3b689586e579dd571059432fa1d8877bdac4d55f30f780ac08cb8177092e","display_name":"token"}"#;
const COMPACT_ASKED: &str =
    r#"","operation":"read","mount_accessor":"kv_7d78ee66","path":"secret/data/"#;
const COMPACT_ANSWERED: &str = r#","response":{"#;

/// What a record looks like.
#[derive(Clone, Copy, PartialEq)]
pub(crate) enum Form {
    /// Two lines, as Vault has them.
    Full,
    /// One.
    Compact,
}

pub(crate) struct Audit {
    form: Form,
    key: hmac::Key,
    file: File,
    /// The lines of the turn.
    lines: Vec<u8>,
    /// Where the last of them begins.
    begin: usize,
    /// The time that they have; empty until it was looked at.
    time: String,
    head: [u8; 32],
    number: u64,
}

fn push_hex(bytes: &[u8], out: &mut Vec<u8>) {
    let digits = b"0123456789abcdef";
    let start = out.len();
    out.resize(start + 2 * bytes.len(), 0);
    for (pair, byte) in out[start..].chunks_exact_mut(2).zip(bytes) {
        pair[0] = digits[usize::from(byte >> 4)];
        pair[1] = digits[usize::from(byte & 15)];
    }
}

impl Audit {
    pub(crate) fn new(form: Form, path: &str) -> io::Result<Self> {
        Ok(Self {
            form,
            key: hmac::Key::new(hmac::HMAC_SHA256, &[7; 32]),
            file: File::options().append(true).create(true).open(path)?,
            lines: Vec::new(),
            begin: 0,
            time: String::new(),
            head: [0; 32],
            number: 0,
        })
    }

    /// Writes down a read and its answer; the lines leave with [`Audit::write`].
    pub(crate) fn read(&mut self, name: &[u8], value: &[u8]) {
        if self.time.is_empty() {
            let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
            // As long as a date, which takes no calendar.
            self.time = format!("{:>20}.{:09}Z", now.as_secs(), now.subsec_nanos());
        }
        let value = hmac::sign(&self.key, value);
        match self.form {
            Form::Full => {
                let mut written = *b"2026-11-29T15:40:59.000000000Z";
                written[21..29].copy_from_slice(format!("{:08}", self.number).as_bytes());
                let time = hmac::sign(&self.key, &written);
                self.request("request", (AUTH, ASKED), name);
                self.link();
                self.request("response", (AUTH, ASKED), name);
                self.answer(ANSWERED, &value);
                self.metadata(&time);
            }
            Form::Compact => {
                self.request("exchange", (COMPACT_AUTH, COMPACT_ASKED), name);
                self.answer(COMPACT_ANSWERED, &value);
                self.lines.extend_from_slice(br#""},"metadata":{"version":1}}}"#);
            }
        }
        self.link();
    }

    fn request(&mut self, kind: &str, (auth, asked): (&str, &str), name: &[u8]) {
        let id = format!("{:08x}-0000-4000-8000-{:012x}", self.number & 0xffff_ffff, self.number);
        let out = &mut self.lines;
        for part in [
            b"{\"time\":\"",
            self.time.as_bytes(),
            b"\",\"type\":\"",
            kind.as_bytes(),
            b"\",",
            auth.as_bytes(),
            b",\"request\":{\"id\":\"",
            id.as_bytes(),
            asked.as_bytes(),
            name,
            FROM.as_bytes(),
        ] {
            out.extend_from_slice(part);
        }
    }

    fn answer(&mut self, begin: &str, value: &hmac::Tag) {
        let out = &mut self.lines;
        out.extend_from_slice(begin.as_bytes());
        out.extend_from_slice(b"\"data\":{\"data\":{\"value\":\"hmac-sha256:");
        push_hex(value.as_ref(), out);
    }

    fn metadata(&mut self, time: &hmac::Tag) {
        let out = &mut self.lines;
        out.extend_from_slice(b"\"},\"metadata\":{\"created_time\":\"hmac-sha256:");
        push_hex(time.as_ref(), out);
        out.extend_from_slice(br#"","custom_metadata":null,"deletion_time":"hmac-sha256:a0599034dbf45e4e891c3f634213844f8a7d8c40661c2b4613af33c20e56cb21","destroyed":false,"version":1}}}"#);
    }

    /// Ends the line that was begun last.
    fn link(&mut self) {
        self.number += 1;
        let out = &mut self.lines;
        write!(out, ",\"chain\":{{\"seq\":{},\"prev\":\"", self.number).expect("memory");
        push_hex(&self.head, out);
        let hash = digest::digest(&digest::SHA256, &out[self.begin..]);
        self.head.copy_from_slice(hash.as_ref());
        out.extend_from_slice(b"\",\"hash\":\"");
        push_hex(&self.head, out);
        out.extend_from_slice(b"\"}}\n");
        self.begin = out.len();
    }

    /// Hands the lines of the turn to the system.
    pub(crate) fn write(&mut self) -> io::Result<()> {
        if self.lines.is_empty() {
            return Ok(());
        }
        self.file.write_all(&self.lines)?;
        self.lines.clear();
        self.begin = 0;
        self.time.clear();
        Ok(())
    }
}
