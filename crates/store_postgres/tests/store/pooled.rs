//! Behind PgBouncer, in both of its modes.

use std::net::{SocketAddr, TcpStream};
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use kallisto_store::{Replicated, Store};

use crate::ports::free_address;
use crate::postgres::{PASSWORD, Postgres, give, own_directory};
use crate::site::{begin, open, put, until, value};

struct Pool {
    process: Child,
    address: SocketAddr,
    directory: PathBuf,
}

impl Pool {
    fn start(database: &Postgres, mode: &str) -> Option<Self> {
        let program = ["/usr/sbin/pgbouncer", "/usr/bin/pgbouncer"];
        let Some(program) = program.into_iter().find(|path| std::path::Path::new(path).exists())
        else {
            println!("*** SKIPPED: pools: PgBouncer is not installed");
            return None;
        };
        let directory = own_directory(mode);
        let address = free_address();
        let users = directory.join("users");
        std::fs::write(&users, format!("\"kallisto\" \"{PASSWORD}\"\n")).unwrap();
        let config = directory.join("pgbouncer.ini");
        let text = format!(
            "[databases]\nkallisto = host=127.0.0.1 port={} dbname=kallisto\n[pgbouncer]\nlisten_addr = 127.0.0.1\n\
             listen_port = {}\nauth_type = scram-sha-256\nauth_file = {}\npool_mode = {mode}\nunix_socket_dir =\n\
             default_pool_size = 12\n",
            database.address().port(),
            address.port(),
            users.display()
        );
        std::fs::write(&config, text).unwrap();
        let mut command = Command::new(program);
        if let Some((uid, gid)) = crate::postgres::user() {
            command.uid(uid).gid(gid);
        }
        [&users, &config].into_iter().for_each(|path| give(path));
        let log = std::fs::File::create(directory.with_extension("log")).unwrap();
        let process = command.arg(&config).stdin(Stdio::null()).stdout(Stdio::null()).stderr(log);
        let process = process.current_dir("/").spawn().unwrap();
        let this = Self { process, address, directory };
        until("the pool to answer", || TcpStream::connect(this.address).is_ok());
        Some(this)
    }
}

impl Drop for Pool {
    fn drop(&mut self) {
        self.process.kill().unwrap();
        self.process.wait().unwrap();
        let _ = std::fs::remove_dir_all(&self.directory);
        let _ = std::fs::remove_file(self.directory.with_extension("log"));
    }
}

/// How long a write takes until the other server has it. Of ten the third least: what a busy machine adds is not the pool's, and how
/// soon the clock strikes after the first is chance.
fn works_in(mode: &str) -> Option<Duration> {
    let database = Postgres::start(mode)?;
    let pool = Pool::start(&database, mode)?;
    let url = Postgres::url_at(pool.address);
    let (one, two) = (open(&url, "one"), open(&url, "two"));
    begin(&one);
    for number in 0..300 {
        one.commit(put(&format!("k{number}"), "v")).wait().unwrap();
    }
    let generation = one.begin_restore().wait().unwrap();
    let records = vec![(b"k"[..].to_vec().into(), b"v"[..].to_vec().into())];
    one.stage(generation, records).wait().unwrap();
    one.finish_restore(generation, 1).wait().unwrap();
    until("the restore at the other one", || two.position() == one.position());
    assert_eq!((value(&two, "k").as_deref(), value(&two, "k7")), (Some("v"), None));
    let mut all = Vec::new();
    for number in 0..10 {
        let number = number.to_string();
        one.commit(put("n", &number)).wait().unwrap();
        all.push(until("it", || value(&two, "n").as_deref() == Some(&number)));
    }
    // The writer goes, the other one takes over through the pool.
    one.close().unwrap();
    until("the other one to lead", || two.leads());
    two.commit(put("n", "other")).wait().unwrap();
    all.sort();
    Some(all[2])
}

#[test]
fn in_session_mode_everything_works_and_notifications_arrive() {
    let Some(took) = works_in("session") else { return };
    println!("session: a write is at the other server after {} ms", took.as_millis());
    // By the clock each would take most of a quarter of a second, since the one before was seen when it struck.
    assert!(took < Duration::from_millis(100), "{took:?}");
}

#[test]
fn in_transaction_mode_everything_works_and_servers_follow_by_the_clock() {
    let Some(took) = works_in("transaction") else { return };
    println!("transaction: a write is at the other server after {} ms", took.as_millis());
    assert!(took < Duration::from_millis(600), "{took:?}");
}
