"""A PostgreSQL of this machine in a folder of its own, as a user without rights where it is root, with a role and a database `kallisto`.

  postgres_server.py FOLDER

starts one below FOLDER, prints the URL of its database, and ends it on SIGTERM. Where none is installed it says so and succeeds.
"""

import os
import pathlib
import pwd
import shutil
import signal
import subprocess
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
from free_ports import free_port  # noqa: E402

PASSWORD = "of-the-walk"


class Database:
    def __init__(self, work, settings=()):
        self.work = work
        installed = sorted(pathlib.Path("/usr/lib/postgresql").glob("*/bin/postgres"))
        found = shutil.which("postgres") or (str(installed[-1]) if installed else None)
        if not found:
            print("*** SKIPPED: storage on PostgreSQL: it is not installed", flush=True)
            sys.exit(0)
        self.bin = pathlib.Path(found).resolve().parent
        self.who = {}
        if os.getuid() == 0:
            user = pwd.getpwnam("postgres")
            self.who = {"user": user.pw_uid, "group": user.pw_gid, "extra_groups": []}
        self.data = self.work / "database"
        self.data.mkdir()
        if self.who:
            os.chown(self.data, self.who["user"], self.who["group"])
        self.port = free_port()
        subprocess.run([self.bin / "initdb", "-D", self.data, "-A", "trust", "-U", "postgres"], check=True,
                       stdout=subprocess.DEVNULL, cwd=self.work, **self.who)
        with open(self.data / "postgresql.conf", "a", encoding="utf-8") as config:
            config.writelines(f"{setting}\n" for setting in settings)
        self.process = None
        self.start()
        self.sql(f"CREATE ROLE kallisto LOGIN PASSWORD '{PASSWORD}'")
        self.sql("CREATE DATABASE kallisto OWNER kallisto")

    def start(self):
        log = open(self.work / "database.log", "ab")
        command = [self.bin / "postgres", "-D", self.data, "-p", str(self.port), "-k", self.data, "-h", "127.0.0.1"]
        self.process = subprocess.Popen(command, stdout=log, stderr=log, cwd=self.work, **self.who)
        for _ in range(300):
            ready = subprocess.run([self.bin / "pg_isready", "-q", "-h", "127.0.0.1", "-p", str(self.port)])
            if ready.returncode == 0:
                return
            time.sleep(0.1)
        raise SystemExit("PostgreSQL does not answer")

    def stop(self, how):
        self.process.send_signal(how)
        self.process.wait(60)

    def sql(self, text, database="postgres"):
        done = subprocess.run([self.bin / "psql", "-h", "127.0.0.1", "-p", str(self.port), "-U", "postgres", "-d", database, "-qAtc", text],
                              capture_output=True, text=True, timeout=30)
        if done.returncode != 0:
            raise SystemExit(f"psql: {done.stderr}")
        return done.stdout.strip()

    def url(self):
        return f"postgres://kallisto:{PASSWORD}@127.0.0.1:{self.port}/kallisto?sslmode=disable"


def main():
    work = pathlib.Path(sys.argv[1])
    work.mkdir(parents=True, exist_ok=True)
    work.chmod(0o755)
    database = Database(work)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    print(database.url(), flush=True)
    try:
        signal.pause()
    finally:
        database.stop(signal.SIGINT)


if __name__ == "__main__":
    main()
