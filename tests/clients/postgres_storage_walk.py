"""Three servers without a disk on one PostgreSQL of this machine: their leader is killed, stopped and continued, the database is
killed and started again, connections are cut in the middle of commits, and nothing that was acknowledged is lost.

  postgres_storage_walk.py KALLISTO_BINARY

Starts PostgreSQL in a folder of its own, as a user without rights where it is root. POSTGRES_KILLS and POSTGRES_RESTARTS say how often the
leader is killed and the database restarted; 6 and 3 when nobody says.

What is judged: each key has one writer, which counts up. A strong read, at any server, that began after n was acknowledged
says at least n, and at most what was tried; no reader sees a key go back. A write whose answer was not heard may hold or not.
"""

import json
import os
import pathlib
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
import urllib.error
import urllib.request

from postgres_server import Database, free_port

BINARY = os.path.abspath(sys.argv[1])
KILLS = int(os.environ.get("POSTGRES_KILLS", "6"))
RESTARTS = int(os.environ.get("POSTGRES_RESTARTS", "3"))
WRITERS = 6
STEPS_DOWN = 5
HANDS_OVER_TRIES = 5
PATIENCE = 40
WORK = pathlib.Path(tempfile.mkdtemp(prefix="postgres-storage-"))
WORK.chmod(0o755)
SEAL_KEY = os.urandom(32).hex()


def ok(what):
    print("ok ", what, flush=True)


def check(condition, what):
    if not condition:
        raise SystemExit(f"not so: {what}")
    ok(what)


class Server:
    def __init__(self, name, database, more=""):
        self.name, self.port, self.peer_port = name, free_port(), free_port()
        self.address = f"http://127.0.0.1:{self.port}"
        self.config = WORK / f"{name}.hcl"
        self.config.write_text(f"""
storage "postgresql" {{
  node_id = "{name}"
  {more}
}}
listener "tcp" {{
  address         = "127.0.0.1:{self.port}"
  cluster_address = "127.0.0.1:{self.peer_port}"
  tls_disable     = true
}}
seal "static" {{
  current_key_id = "a"
  current_key    = "{SEAL_KEY}"
}}
api_addr = "{self.address}"
""")
        self.database, self.process = database, None

    def start(self):
        log = open(WORK / f"{self.name}.log", "ab")
        environment = dict(os.environ, BAO_PG_CONNECTION_URL=self.database.url())
        self.process = subprocess.Popen([BINARY, "server", "-config", str(self.config)], stdout=log, stderr=log, env=environment, cwd=WORK)

    def ask(self, method, path, body=None, token=None, timeout=20, headers=()):
        data = json.dumps(body).encode() if body is not None else None
        request = urllib.request.Request(f"{self.address}/v1/{path}", data, method=method)
        if token:
            request.add_header("X-Vault-Token", token)
        for name, value in headers:
            request.add_header(name, value)
        try:
            with urllib.request.urlopen(request, timeout=timeout) as answer:
                text = answer.read()
                return answer.status, json.loads(text) if text else {}
        except urllib.error.HTTPError as error:
            text = error.read()
            return error.code, json.loads(text) if text else {}
        except (OSError, ValueError) as error:
            return 0, {"errors": [str(error)]}

    def leads(self):
        code, answer = self.ask("GET", "sys/leader", timeout=3)
        return code == 200 and answer.get("is_self")


def wait(what, holds, seconds=PATIENCE):
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        found = holds()
        if found:
            return found
        time.sleep(0.1)
    raise SystemExit(f"in vain: {what}")


def leader_of(servers):
    return wait("somebody leads", lambda: next((one for one in servers if one.process and one.process.poll() is None and one.leads()), None))


class Writers:
    """Counts up, a key a thread, and reads strongly at every server."""

    def __init__(self, servers, token):
        self.servers, self.token = servers, token
        self.acknowledged, self.tried, self.wrong = [0] * WRITERS, [0] * WRITERS, []
        self.unheard = 0
        self.stopping = threading.Event()
        self.threads = [threading.Thread(target=self.write, args=(number,)) for number in range(WRITERS)]
        self.threads += [threading.Thread(target=self.read, args=(number,)) for number in range(WRITERS)]
        for thread in self.threads:
            thread.start()

    def write(self, number):
        turn = number
        while not self.stopping.is_set():
            turn += 1
            server = self.servers[turn % len(self.servers)]
            value = self.tried[number] + 1
            self.tried[number] = value
            code, _ = server.ask("POST", f"secret/data/walk-{number}", {"data": {"n": value}}, self.token)
            if code == 200:
                self.acknowledged[number] = value
            else:
                self.unheard += 1
                time.sleep(0.05)

    def read(self, number):
        turn, seen = number, 0
        while not self.stopping.is_set():
            turn += 1
            server = self.servers[turn % len(self.servers)]
            least = self.acknowledged[number]
            code, answer = server.ask("GET", f"secret/data/walk-{number}", None, self.token, headers=[("X-Kallisto-Consistency", "strong")])
            if code == 200:
                found = answer["data"]["data"]["n"]
                if found < least or found > self.tried[number] or found < seen:
                    self.wrong.append((number, least, seen, found, self.tried[number]))
                seen = max(seen, found)
            time.sleep(0.01)

    def stop(self):
        self.stopping.set()
        for thread in self.threads:
            thread.join(60)


def main():
    database = Database(WORK)
    servers = [Server(name, database) for name in ("one", "two", "three")]
    try:
        walk(database, servers)
    finally:
        for server in servers:
            if server.process and server.process.poll() is None:
                server.process.send_signal(signal.SIGCONT)
                server.process.terminate()
        for server in servers:
            if server.process:
                server.process.wait(30)
        database.stop(signal.SIGINT)


def walk(database, servers):
    one, two, three = servers
    for server in servers:
        server.start()
    for server in servers:
        wait(f"{server.name} answers", lambda: server.ask("GET", "sys/seal-status", timeout=3)[0] == 200)
    # Of a database without anything any server begins.
    code, made = two.ask("PUT", "sys/init", {"recovery_shares": 1, "recovery_threshold": 1})
    check(code == 200, f"a server of three begins, whichever is asked ({code})")
    token = made["root_token"]
    for server in servers:
        wait(f"{server.name} is unsealed", lambda: server.ask("GET", "sys/seal-status", timeout=3)[1].get("sealed") is False)
    ok("all of them unseal by themselves")
    leader_of(servers)
    wait("a mount", lambda: one.ask("POST", "sys/mounts/secret", {"type": "kv", "options": {"version": "2"}}, token)[0] in (200, 204, 400))
    names = wait("all are known", lambda: (lambda found: found if len(found) == 3 else None)(
        sorted(node["hostname"] for node in one.ask("GET", "sys/ha-status", None, token)[1].get("nodes", []))))
    check(names == ["one", "three", "two"], "they know each other")
    for number, server in enumerate(servers):
        code, answer = wait("a write by every server", lambda: (lambda told: told if told[0] == 200 else None)(
            server.ask("POST", f"secret/data/written-by-{number}", {"data": {"by": server.name}}, token)))
    for server in servers:
        for number, by in enumerate(servers):
            wait("every server reads it", lambda: get(server, f"secret/data/written-by-{number}", token) == {"by": by.name})
    ok("every server takes writes, and all read them")
    dump = database.sql("SELECT encode(key, 'escape') || encode(value, 'escape') FROM kallisto_store", "kallisto") \
        + database.sql("SELECT encode(body, 'escape') FROM kallisto_store_changes", "kallisto")
    check("secret/" not in dump and "written-by-" not in dump and token not in dump, "the database holds no name and no token in the clear")

    writers = Writers(servers, token)
    started = time.monotonic()
    for _ in range(KILLS):
        leader = leader_of(servers)
        leader.process.kill()
        leader.process.wait(30)
        began = time.monotonic()
        leader_of(servers)
        took = time.monotonic() - began
        print(f"    {leader.name} was killed, another leads after {took:.1f} s", flush=True)
        leader.start()
        wait("it is back", lambda: leader.ask("GET", "sys/health?standbyok=true", timeout=3)[0] == 200)
    ok(f"{KILLS} kills of the leader")
    for number in range(RESTARTS):
        database.stop([signal.SIGQUIT, signal.SIGKILL, signal.SIGINT][number % 3])
        time.sleep(0.5)
        database.start()
        leader_of(servers)
    ok(f"{RESTARTS} restarts of the database")
    for _ in range(5):
        database.sql("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE usename = 'kallisto'")
        time.sleep(0.4)
    leader_of(servers)
    ok("connections that are cut")
    # Two that think they lead: the old one sleeps for longer than its lease.
    old = leader_of(servers)
    old.process.send_signal(signal.SIGSTOP)
    others = [server for server in servers if server is not old]
    new = leader_of(others)
    before = writers.acknowledged[:]
    wait("writes go on", lambda: sum(writers.acknowledged) > sum(before))
    old.process.send_signal(signal.SIGCONT)
    wait("the old leader knows it", lambda: not old.leads() and old.ask("GET", "sys/health?standbyok=true", timeout=3)[0] == 200)
    check(old is not new, "a leader that slept longer than its lease does not lead, and follows")
    # A leader that steps down does not take the lease back before the others see that it is free.
    stayed = []
    for _ in range(STEPS_DOWN):
        leader = leader_of(servers)
        code, answer = leader.ask("PUT", "sys/step-down", None, token)
        if code != 204 or leader.leads():
            stayed.append((leader.name, code, answer))
    check(not stayed, f"of {STEPS_DOWN} leaders that step down none leads after it: {stayed}")
    # A graceful stop hands over: otherwise a lease of five seconds ends first, whatever else the machine does.
    for _ in range(HANDS_OVER_TRIES):
        leader = leader_of(servers)
        leader.process.terminate()
        began = time.monotonic()
        leader_of([server for server in servers if server is not leader])
        took = time.monotonic() - began
        leader.process.wait(30)
        leader.start()
        wait("it is back", lambda: leader.ask("GET", "sys/health?standbyok=true", timeout=3)[0] == 200)
        if took < 4:
            break
    check(took < 4, f"SIGTERM hands over ({took:.1f} s)")
    time.sleep(1)
    writers.stop()
    check(not writers.wrong, f"strong reads at every server are of what was acknowledged: {writers.wrong[:3]}")
    total = sum(writers.acknowledged)
    check(min(writers.acknowledged) > 10, f"{total} writes were acknowledged in {time.monotonic() - started:.0f} s, {writers.unheard} were not")
    for server in servers:
        for number in range(WRITERS):
            def holds():
                code, answer = server.ask("GET", f"secret/data/walk-{number}", None, token)
                found = answer["data"]["data"]["n"] if code == 200 else -1
                return writers.acknowledged[number] <= found <= writers.tried[number]
            wait(f"{server.name} has what was acknowledged", holds)
    ok("every server has every acknowledged write")
    for server in servers:
        server.process.terminate()
    for server in servers:
        server.process.wait(30)
        server.start()
    for server in servers:
        wait("all are back", lambda: server.ask("GET", "sys/health?standbyok=true", timeout=3)[0] == 200)
    for number in range(WRITERS):
        code, answer = one.ask("GET", f"secret/data/walk-{number}", None, token)
        if code != 200 or answer["data"]["data"]["n"] < writers.acknowledged[number]:
            raise SystemExit(f"lost: {number}")
    ok("nothing is lost when all of them start again")
    snapshots(database, leader_of(servers), servers, token)
    one_alone(database, servers)
    migrated(database, servers, token)


def get(server, path, token):
    code, answer = server.ask("GET", path, None, token)
    return answer["data"]["data"] if code == 200 else None


def snapshots(database, leader, servers, token):
    """A snapshot of the database restored by a Raft server, and one of that by the servers of the database."""
    wait("a write", lambda: leader.ask("POST", "secret/data/moved", {"data": {"of": "database"}}, token)[0] == 200)
    raft = Server("raft", database)
    folder = WORK / "raft"
    text = raft.config.read_text()
    begin, end = text.index("storage"), text.index("listener")
    raft.config.write_text(text[:begin] + f'storage "raft" {{ path = "{folder}" }}\n' + text[end:])
    servers.append(raft)
    raft.start()
    wait("raft answers", lambda: raft.ask("GET", "sys/seal-status", timeout=3)[0] == 200)
    code, made = raft.ask("PUT", "sys/init", {"recovery_shares": 1, "recovery_threshold": 1})
    check(code == 200, "a Raft server with the same seal")
    wait("raft leads", raft.leads)
    moved(leader, raft, token, made["root_token"])
    # It is sealed by what it was given, and opens by the same seal.
    raft.process.terminate()
    raft.process.wait(30)
    raft.start()
    wait("raft leads again", raft.leads)
    wait("the Raft server has it", lambda: get(raft, "secret/data/moved", token) == {"of": "database"})
    ok("a snapshot of the database restores into Raft")
    wait("a write there", lambda: raft.ask("POST", "secret/data/moved", {"data": {"of": "raft"}}, token)[0] == 200)
    moved(raft, leader, token, token)
    for server in servers[:3]:
        wait(f"{server.name} has it", lambda: get(server, "secret/data/moved", token) == {"of": "raft"})
    ok("a snapshot of Raft restores into the database, and every server has it")
    wait("a write after it", lambda: leader_of(servers[:3]).ask("POST", "secret/data/moved", {"data": {"of": "after"}}, token)[0] == 200)
    raft.process.terminate()
    raft.process.wait(30)


def moved(source, target, source_token, token):
    request = urllib.request.Request(f"{source.address}/v1/sys/storage/raft/snapshot")
    request.add_header("X-Vault-Token", source_token)
    with urllib.request.urlopen(request, timeout=60) as answer:
        snapshot = answer.read()
    request = urllib.request.Request(f"{target.address}/v1/sys/storage/raft/snapshot-force", snapshot, method="POST")
    request.add_header("X-Vault-Token", token)
    try:
        with urllib.request.urlopen(request, timeout=60) as answer:
            check(answer.status in (200, 204), f"{target.name} takes {len(snapshot)} bytes")
    except urllib.error.HTTPError as error:
        raise SystemExit(f"{target.name} refuses a snapshot: {error.read()[:300]}")


def migrated(database, servers, token):
    """Everything to a directory and back to other tables, while no server runs."""
    for server in servers:
        server.process.terminate()
    for server in servers:
        server.process.wait(30)
    environment = dict(os.environ, BAO_PG_CONNECTION_URL=database.url())
    folder = WORK / "migrated"

    def migrate(*words):
        done = subprocess.run([BINARY, "operator", "migrate", f"-path={folder}", *words], capture_output=True, text=True, env=environment, timeout=120)
        return done.returncode, done.stdout.strip() + done.stderr.strip()

    code, said = migrate("-from=postgresql", "-to=raft")
    check(code == 0 and "compared" in said, f"from the database to a directory: {said[-120:]}")
    code, said = migrate("-from=raft", "-to=postgresql")
    check(code == 0 and "compared" in said, f"what was moved already is compared again: {said[-120:]}")
    # Killed in the middle, again and again: the same command goes on to the end, or begins anew.
    for millis in (40, 90, 160, 250, 400):
        process = subprocess.Popen([BINARY, "operator", "migrate", f"-path={folder}", "-from=raft", "-to=postgresql", "-table=other"],
                                   stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, env=environment)
        time.sleep(millis / 1000)
        process.kill()
        process.wait(30)
    code, said = migrate("-from=raft", "-to=postgresql", "-table=other")
    check(code == 0 and "compared" in said, f"from the directory to other tables, after five kills: {said[-120:]}")
    other = Server("other", database, 'table = "other"\n  ha_table = "other_servers"')
    servers.append(other)
    other.start()
    wait("a server on the other tables has it", lambda: get(other, "secret/data/moved", token) == {"of": "after"})
    wait("and writes there", lambda: other.ask("POST", "secret/data/moved", {"data": {"of": "other"}}, token)[0] == 200)
    ok("a server on the other tables has everything, and writes")
    other.process.terminate()
    other.process.wait(30)
    code, said = migrate("-from=raft", "-to=postgresql", "-table=other")
    check(code != 0 and "holds other records already" in said, "what holds other records is not written over")


def one_alone(database, servers):
    """A server that says that it is alone does not start beside others."""
    alone = Server("alone", database, 'ha_enabled = "false"')
    alone.start()
    check(alone.process.wait(30) != 0 and "another server uses this database" in (WORK / "alone.log").read_text(),
          "a server that says it is alone does not start beside others")


try:
    main()
    shutil.rmtree(WORK, ignore_errors=True)
except SystemExit as end:
    if end.code:
        for log in sorted(WORK.glob("*.log")):
            text = log.read_text(errors="replace").splitlines()[-12:]
            print(f"--- {log.name}", *text, sep="\n", flush=True)
    raise
