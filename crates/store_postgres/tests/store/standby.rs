//! A standby of a PostgreSQL, which takes its place.

use std::os::unix::fs::PermissionsExt;

use crate::ports::free_address;
use crate::postgres::{Postgres, command, own_directory};

impl Postgres {
    /// A standby that holds everything before a commit is acknowledged, from now on.
    pub(crate) fn standby(&self) -> Self {
        let directory = own_directory("standby");
        std::fs::set_permissions(&directory, std::fs::Permissions::from_mode(0o700)).unwrap();
        let copied = command(&self.bin.join("pg_basebackup"))
            .args(["-h", "127.0.0.1", "-U", "postgres", "-R", "-X", "stream", "-c", "fast", "-p"])
            .arg(self.port.to_string())
            .arg("-D")
            .arg(&directory)
            .status();
        assert!(copied.unwrap().success(), "pg_basebackup");
        let port = free_address().port();
        let config = directory.join("postgresql.auto.conf");
        let text = std::fs::read_to_string(&config).unwrap();
        std::fs::write(&config, format!("{text}\nport = {port}\n")).unwrap();
        let mut this = Self { bin: self.bin.clone(), directory, port, process: None };
        this.run();
        self.sql("ALTER SYSTEM SET synchronous_standby_names = '*'");
        self.sql("SELECT pg_reload_conf()");
        this
    }

    /// Has a standby take the place of its database.
    pub(crate) fn promote(&self) {
        let promoted = command(&self.bin.join("pg_ctl"))
            .args(["promote", "-w", "-D"])
            .arg(&self.directory)
            .status();
        assert!(promoted.unwrap().success(), "pg_ctl promote");
    }
}
