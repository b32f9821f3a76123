"""A PostgreSQL with passwords that dies and comes back."""

import os
import pathlib
import signal
import subprocess
import time

from far_ends.processes import find_tool, free_port, is_listening, start, user_for

ROOT, ROOT_PASSWORD = "vaultadmin", "vaultpw"


class Postgres:
    def __init__(self, work):
        self.work, self.who, self.port = work, user_for("postgres", "nobody"), free_port()
        self.place = work / "postgres"
        self.place.mkdir()
        if self.who:
            os.chown(self.place, self.who["user"], self.who["group"])
        password = work / "postgres.pw"
        password.write_text(ROOT_PASSWORD)
        password.chmod(0o644)
        subprocess.run([find_tool("initdb"), "-D", str(self.place / "data"), "-U", ROOT, "-A", "scram-sha-256", f"--pwfile={password}", "-E", "UTF8", "--no-sync"],
                       check=True, stdout=subprocess.DEVNULL, cwd=work, **self.who)
        self.process = None
        self.start()
        self.root = (ROOT, ROOT_PASSWORD)
        self.sql("CREATE ROLE checker SUPERUSER LOGIN PASSWORD 'checkpw'")
        self.root = ("checker", "checkpw")

    def start(self):
        for _ in range(50):
            command = [find_tool("postgres"), "-D", self.place / "data", "-p", self.port, "-h", "127.0.0.1", "-k", self.place, "-c", "max_connections=200",
                       "-c", "superuser_reserved_connections=10"]
            self.process = start(command, self.work / "postgres.log", cwd=self.work, **self.who)
            if is_listening(self.port, self.process) and self.is_ready():
                return
            # The segment of memory of one that was killed is in use while a process of it lives.
            time.sleep(0.1)
        raise SystemExit("PostgreSQL does not answer")

    def is_ready(self):
        for _ in range(300):
            ready = subprocess.run([find_tool("pg_isready"), "-q", "-h", "127.0.0.1", "-p", str(self.port)], check=False)
            if ready.returncode == 0:
                return True
            if self.process.poll() is not None:
                return False
            time.sleep(0.05)
        return False

    def children(self):
        """The processes that it has started."""
        return [int(child) for child in pathlib.Path(f"/proc/{self.process.pid}/task/{self.process.pid}/children").read_text().split()]

    def kill(self):
        """SIGKILL to all of its processes."""
        children = self.children()
        self.process.send_signal(signal.SIGKILL)
        for child in children:
            try:
                os.kill(child, signal.SIGKILL)
            except ProcessLookupError:
                pass

    def restart(self):
        self.process.wait(30)
        self.start()

    def psql(self, user, password, statement):
        command = ["psql", "-h", "127.0.0.1", "-p", str(self.port), "-U", user, "-d", "postgres", "-Atc", statement]
        return subprocess.run(command, env={**os.environ, "PGPASSWORD": password, "PGCONNECT_TIMEOUT": "5"}, capture_output=True, text=True, timeout=30, check=False)

    def logs_in(self, user, password):
        return self.psql(user, password, "SELECT 1").stdout.strip() == "1"

    def sql(self, statement):
        answer = self.psql(*self.root, statement)
        if answer.returncode:
            raise SystemExit(f"psql: {answer.stderr}")
        return answer.stdout.strip()

    def users(self, pattern="v-%"):
        return set(self.sql(f"SELECT rolname FROM pg_roles WHERE rolname LIKE '{pattern}'").split())

    def url(self, port=None):
        return f"postgresql://{{{{username}}}}:{{{{password}}}}@127.0.0.1:{port or self.port}/postgres?sslmode=disable"
