//! Somebody who only wants their secret, at a steady rate, while others attack.
//!
//! Requests are due at fixed times, and how long one took is counted from when it was due: a server that
//! stops answering for a second is seen by every request of that second.

use std::io::{self, BufReader, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::sync::Arc;
use std::time::{Duration, Instant};

use rustls::ClientConfig;

use crate::client;

/// What the victim does, again and again.
#[derive(Clone)]
pub(crate) struct Habit {
    /// Where it comes from.
    pub(crate) from: Ipv4Addr,
    pub(crate) to: SocketAddr,
    /// What it asks, and how often in a second.
    pub(crate) request: Vec<u8>,
    pub(crate) rate: u32,
    /// With this, each request is a connection and a handshake of its own.
    pub(crate) tls: Option<Arc<ClientConfig>>,
}

/// How the victim fared for a while.
pub(crate) struct Fare {
    micros: Vec<u64>,
    /// Requests that were refused, cut or not answered.
    pub(crate) errors: u64,
}

impl Habit {
    /// Lives for a while.
    pub(crate) fn live(&self, span: Duration) -> Fare {
        let begin = now();
        let step = Duration::from_secs(1) / self.rate;
        let mut fare = Fare { micros: Vec::new(), errors: 0 };
        let mut kept: Option<BufReader<TcpStream>> = None;
        let mut due = begin;
        while due < begin + span {
            std::thread::sleep(due.saturating_duration_since(now()));
            let asked = match &self.tls {
                None => self.ask_kept(&mut kept),
                Some(config) => self.ask_anew(config),
            };
            match asked {
                Ok(status) if status < 300 => {
                    let took = now().duration_since(due).as_micros();
                    fare.micros.push(u64::try_from(took).unwrap_or(u64::MAX));
                }
                Ok(_) | Err(_) => {
                    fare.errors += 1;
                    kept = None;
                }
            }
            due += step;
            if now() > begin + span {
                // The rest was due and never asked for: the server was too slow.
                let left = (begin + span).saturating_duration_since(due).as_nanos();
                fare.errors += u64::try_from(left / step.as_nanos()).unwrap_or(u64::MAX);
                break;
            }
        }
        fare.micros.sort_unstable();
        fare
    }

    fn ask_kept(&self, kept: &mut Option<BufReader<TcpStream>>) -> io::Result<u16> {
        let reader = match kept {
            Some(reader) => reader,
            None => kept.insert(BufReader::new(client::connect(self.from, self.to)?)),
        };
        reader.get_mut().write_all(&self.request)?;
        Ok(client::reply(reader)?.0)
    }

    fn ask_anew(&self, config: &Arc<ClientConfig>) -> io::Result<u16> {
        let mut stream = client::tls(client::connect(self.from, self.to)?, config)?;
        stream.write_all(&self.request)?;
        Ok(client::reply(&mut BufReader::new(stream))?.0)
    }
}

impl Fare {
    /// The latency that so many of a thousand do not exceed, in milliseconds.
    pub(crate) fn millis(&self, per_mille: usize) -> f64 {
        let at = (self.micros.len() * per_mille / 1000).min(self.micros.len().saturating_sub(1));
        self.micros.get(at).map_or(f64::NAN, |micros| *micros as f64 / 1e3)
    }

    /// How many requests were answered.
    pub(crate) fn count(&self) -> usize {
        self.micros.len()
    }
}

/// The time; a program that measures has to look.
#[expect(clippy::disallowed_methods, reason = "measuring is what this is for")]
pub(crate) fn now() -> Instant {
    Instant::now()
}
