//! Three servers: their processes, directories and shares.
//!
//! They keep their records on disks of their own, or in a database that each reaches by a wire of its own.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::Arc;
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};

use super::faults::{self, Faults};
use super::http::{Client, Reply, Unanswered};
use super::net::{Net, Wire};
use super::ports::free_address;
use super::postgres::Postgres;
use super::proxy::{DatabaseProxy, DatabaseWire};
use super::{PATIENCE, until};

/// How many servers there are.
pub(crate) const SERVERS: usize = 3;
/// How long a question about a server's state may take.
const STATE_PATIENCE: Duration = Duration::from_millis(500);

/// The cluster.
pub(crate) struct Cluster {
    directory: PathBuf,
    pub(crate) net: Arc<Net>,
    nodes: Vec<Node>,
    shares: Vec<String>,
    /// What every configuration says besides.
    saying: String,
    /// The wire of each server to the database, where there is one.
    database: Option<Vec<DatabaseProxy>>,
    /// The build that it began with, where that is another.
    other_build: Option<PathBuf>,
    pub(crate) token: String,
}

struct Node {
    api: SocketAddr,
    /// Where it listens for peers, and where they find it.
    port: SocketAddr,
    front: SocketAddr,
    process: Option<Child>,
    /// What its machine does to it.
    faults: Option<Faults>,
    /// Its binary, unless that is the one of this build.
    build: Option<PathBuf>,
}

impl Cluster {
    /// Makes a cluster of three in a directory of its own.
    pub(crate) fn form(name: &str) -> Self {
        Self::form_saying(name, "")
    }

    /// The same with a line in every configuration.
    pub(crate) fn form_saying(name: &str, line: &str) -> Self {
        Self::form_with(Self::directory(name), line, (None, None), |_| None)
    }

    /// The same on a database.
    pub(crate) fn form_on_database_saying(name: &str, database: &Postgres, line: &str) -> Self {
        let wires = (0..SERVERS).map(|_| DatabaseProxy::before(database.address())).collect();
        Self::form_with(Self::directory(name), line, (Some(wires), None), |_| None)
    }

    /// The same on machines whose disks and clocks obey; `None` where they cannot be had.
    pub(crate) fn form_on_bad_machines(name: &str) -> Option<Self> {
        let directory = Self::directory(name);
        std::fs::create_dir_all(&directory).unwrap();
        let library = faults::compile(&directory)?;
        let control = |server| directory.join(format!("{}.faults", Self::name(server)));
        let faults = |server| Some(Faults::new(&library, control(server)));
        Some(Self::form_with(directory.clone(), "", (None, None), faults))
    }

    /// The same of another build.
    pub(crate) fn form_of_build(name: &str, build: PathBuf) -> Self {
        Self::form_with(Self::directory(name), "", (None, Some(build)), |_| None)
    }

    fn directory(name: &str) -> PathBuf {
        Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("chaos-{name}-{}", std::process::id()))
    }

    fn form_with(
        directory: PathBuf,
        saying: &str,
        (database, other_build): (Option<Vec<DatabaseProxy>>, Option<PathBuf>),
        faults: impl Fn(usize) -> Option<Faults>,
    ) -> Self {
        let net = Arc::<Net>::default();
        let nodes = (0..SERVERS).map(|server| {
            let (port, faults, build) = (free_address(), faults(server), other_build.clone());
            Node {
                api: free_address(),
                port,
                front: net.front(server, port),
                process: None,
                faults,
                build,
            }
        });
        let nodes = nodes.collect();
        let (shares, token, saying) = (Vec::new(), String::new(), saying.to_owned());
        let mut this = Self { directory, net, nodes, shares, saying, database, other_build, token };
        (0..SERVERS).for_each(|server| this.start(server));
        let init = r#"{"secret_shares":3,"secret_threshold":2}"#;
        let made = this.client(0).good("PUT", "sys/init", init);
        this.shares = (0..2).map(|share| made.at(&format!("keys.{share}"))).collect();
        this.token = made.at("root_token");
        this.unseal(0);
        for server in 1..SERVERS {
            match this.database {
                // It is part of the cluster once it is unsealed, and that once it has read that there is one.
                Some(_) => {
                    until("a server to follow", || {
                        let status = this.ask(server, "sys/seal-status");
                        status.is_ok_and(|status| status.at("initialized") == "true")
                    });
                    this.unseal(server);
                }
                None => this.join(server),
            }
        }
        this.settle();
        this
    }

    /// How servers are called.
    pub(crate) fn name(server: usize) -> String {
        format!("server-{server}")
    }

    fn data(&self, server: usize) -> PathBuf {
        self.directory.join(Self::name(server))
    }

    /// What a server logged since its first start.
    pub(crate) fn log(&self, server: usize) -> String {
        let path = self.directory.join(format!("{}.log", Self::name(server)));
        String::from_utf8_lossy(&std::fs::read(path).unwrap()).into_owned()
    }

    /// Where clients reach a server.
    pub(crate) fn address(&self, server: usize) -> SocketAddr {
        self.nodes[server].api
    }

    /// A client of one server.
    pub(crate) fn client(&self, server: usize) -> Client {
        Client::new(self.address(server), &self.token, PATIENCE)
    }

    /// Starts a server, sealed, and waits until it answers.
    pub(crate) fn start(&mut self, server: usize) {
        let data = self.data(server);
        std::fs::create_dir_all(&data).unwrap();
        let Node { api, port, front, .. } = &self.nodes[server];
        let name = Self::name(server);
        let storage = match &self.database {
            None => format!("storage \"raft\" {{ path = \"{}\"", data.display()),
            Some(wires) => format!(
                "storage \"postgresql\" {{ connection_url = \"{}\"",
                Postgres::url_at(wires[server].address)
            ),
        };
        let config = format!(
            "{storage} node_id = \"{name}\" }}\n\
             listener \"tcp\" {{ address = \"{api}\" cluster_address = \"{port}\" tls_disable = true }}\n\
             api_addr = \"http://{api}\"\ncluster_addr = \"https://{front}\"\n\
             disable_mlock = true\ncache_size = \"64mb\"\n{}\n",
            self.saying
        );
        let path = self.directory.join(format!("{name}.hcl"));
        std::fs::write(&path, config).unwrap();
        let log = self.directory.join(format!("{name}.log"));
        let log = std::fs::OpenOptions::new().create(true).append(true).open(log).unwrap();
        let build = self.nodes[server].build.as_deref();
        let mut command = Command::new(build.unwrap_or(Path::new(env!("CARGO_BIN_EXE_kallisto"))));
        command
            .args(["server", "-workers=1", &format!("-config={}", path.display())])
            .env_clear()
            .env("HOME", &self.directory)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(log);
        if let Some(faults) = &self.nodes[server].faults {
            faults.put_on(&mut command, &data);
        }
        let process = command.spawn().unwrap();
        self.net.is_process(server, process.id());
        self.nodes[server].process = Some(process);
        until("a server to answer", || self.ask(server, "sys/seal-status").is_ok());
    }

    /// Asks a server something without a token, quickly.
    pub(crate) fn ask(&self, server: usize, path: &str) -> Result<Reply, Unanswered> {
        Client::new(self.address(server), "", STATE_PATIENCE).send("GET", path, "", b"")
    }

    /// Gives a server its shares, whatever comes of it.
    pub(crate) fn give_shares(&self, server: usize) {
        for share in &self.shares {
            // One that unseals by another share is unsealed.
            let body = format!(r#"{{"key":"{share}"}}"#);
            self.client(server).send("PUT", "sys/unseal", "", body.as_bytes()).unwrap();
        }
    }

    /// Unseals a server.
    pub(crate) fn unseal(&self, server: usize) {
        self.give_shares(server);
        until("a server to be unsealed", || {
            self.ask(server, "sys/seal-status").is_ok_and(|status| status.at("sealed") == "false")
        });
    }

    /// Has a new server join.
    pub(crate) fn join(&self, server: usize) {
        let member = (0..SERVERS).find(|&other| other != server && self.is_up(other)).unwrap();
        let target = self.leader().unwrap_or(member);
        let body = format!(r#"{{"leader_api_addr":"http://{}"}}"#, self.address(target));
        self.client(server).good("POST", "sys/storage/raft/join", &body);
        self.unseal(server);
    }

    fn is_up(&self, server: usize) -> bool {
        self.nodes[server].process.is_some()
    }

    fn signal(&self, server: usize, signal: Signal) {
        if let Some(process) = &self.nodes[server].process {
            kill_process(Pid::from_child(process), signal).unwrap();
        }
    }

    /// Kills a server as a power button would.
    pub(crate) fn kill(&mut self, server: usize) {
        self.signal(server, Signal::KILL);
        if let Some(mut process) = self.nodes[server].process.take() {
            process.wait().unwrap();
        }
    }

    /// Stops a server by its own rules.
    pub(crate) fn stop(&mut self, server: usize) {
        self.signal(server, Signal::TERM);
        // It stays among the nodes until it has ended, so that one that does not is killed with the cluster.
        let mut status = None;
        if let Some(process) = &mut self.nodes[server].process {
            until("a server to stop", || {
                status = process.try_wait().unwrap();
                status.is_some()
            });
        }
        self.nodes[server].process = None;
        assert!(status.is_none_or(|status| status.success()), "{}", Self::name(server));
    }

    /// Waits until a server has ended by itself, and says how.
    pub(crate) fn ended(&mut self, server: usize) -> ExitStatus {
        let mut status = None;
        let process = self.nodes[server].process.as_mut().unwrap();
        until("a server to end", || {
            status = process.try_wait().unwrap();
            status.is_some()
        });
        self.nodes[server].process = None;
        status.unwrap()
    }

    /// What a server's machine does to it.
    pub(crate) fn faults(&self, server: usize) -> &Faults {
        self.nodes[server].faults.as_ref().expect("a cluster on bad machines")
    }

    /// Starts a server that was there before.
    pub(crate) fn restart(&mut self, server: usize) {
        self.start(server);
        self.unseal(server);
    }

    /// Has a server stand still, and go on.
    pub(crate) fn freeze(&self, server: usize) {
        self.signal(server, Signal::STOP);
    }

    pub(crate) fn thaw(&self, server: usize) {
        self.signal(server, Signal::CONT);
    }

    /// The build that it began with, where that is another.
    pub(crate) fn other_build(&self) -> Option<PathBuf> {
        self.other_build.clone()
    }

    /// Sets what a server is started from; `None` for this build.
    pub(crate) fn set_build(&mut self, server: usize, build: Option<PathBuf>) {
        self.nodes[server].build = build;
    }

    /// Forgets everything a server had, as if it were a new machine.
    pub(crate) fn wipe(&self, server: usize) {
        std::fs::remove_dir_all(self.data(server)).unwrap();
    }

    /// Cuts a server off, in both directions.
    pub(crate) fn isolate(&self, server: usize, wire: Wire) {
        for other in (0..SERVERS).filter(|&other| other != server) {
            self.net.set(server, other, wire);
            self.net.set(other, server, wire);
        }
    }

    /// Sets what a server's wire to the database does.
    pub(crate) fn wire(&self, server: usize, wire: DatabaseWire) {
        self.database.as_ref().expect("a cluster on a database")[server].set(wire);
    }

    /// The server that says that it leads.
    pub(crate) fn leader(&self) -> Option<usize> {
        (0..SERVERS).filter(|&server| self.is_up(server)).find(|&server| {
            self.ask(server, "sys/leader").is_ok_and(|reply| reply.at("is_self") == "true")
        })
    }

    /// Waits until somebody leads.
    pub(crate) fn some_leader(&self) -> usize {
        let mut leader = None;
        until("somebody to lead", || {
            leader = self.leader();
            leader.is_some()
        });
        leader.unwrap()
    }

    /// Waits until all three vote and hold the same.
    pub(crate) fn settle(&self) {
        until("three voters", || {
            if self.database.is_some() {
                return self.leader().is_some();
            }
            let Some(leader) = self.leader() else { return false };
            let reply = self.client(leader).send("GET", "sys/storage/raft/configuration", "", b"");
            let Ok(reply) = reply else { return false };
            (0..SERVERS).all(|at| reply.at(&format!("data.config.servers.{at}.voter")) == "true")
        });
        until("the servers to hold the same", || {
            let applied =
                |server| self.ask(server, "sys/leader").map(|reply| reply.at("raft_applied_index"));
            let all: Vec<_> = (0..SERVERS).map(applied).collect();
            all.iter().all(|one| one.is_ok() && *one == all[0])
        });
        self.all_answer();
    }

    /// A server's health, as a load balancer sees it; 0 where it does not answer.
    pub(crate) fn health(&self, server: usize) -> u16 {
        self.ask(server, "sys/health").map_or(0, |reply| reply.status)
    }

    /// Waits until every server answers reads from its own state: right after it is unsealed it waits for a leader's word.
    pub(crate) fn all_answer(&self) {
        until("every server to answer reads", || {
            (0..SERVERS).all(|server| matches!(self.health(server), 200 | 429))
        });
    }
}

impl Drop for Cluster {
    fn drop(&mut self) {
        for node in &mut self.nodes {
            if let Some(mut process) = node.process.take() {
                // It may have ended by itself.
                let _ = process.kill();
                let _ = process.wait();
            }
        }
        // What a failed test wrote is worth a look.
        if !std::thread::panicking() {
            let _ = std::fs::remove_dir_all(&self.directory);
        }
    }
}
