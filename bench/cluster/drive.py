"""Three servers: puts, failover, reads on every server, and how a server catches up.

All servers and the load share all cores. Every figure is of one machine, so a put crosses no network and three servers
share one disk.
"""

import json
import os
import pathlib
import shutil
import signal
import statistics
import subprocess
import sys
import time
import urllib.request

import driving
import report
from peers import Bench, Server, Skipped, free_port, until

SERVERS = 3
UNSEAL_SECS_MAX = 600
CATCH_UP_SECS_MAX = 600
GROUPS = ["puts", "rates", "failover", "stepdown", "reads", "catchup"]
CLIENTS = [1, 64, 512]
RATES = [5_000, 8_000, 10_000]
RATE_CLIENTS = 512
BEGIN = "<!-- cluster:begin (written by bench/cluster/run.sh) -->"
END = "<!-- cluster:end -->"


def say(text):
    print(f"cluster: {text}", file=sys.stderr, flush=True)


class KallistoNode(Server):
    name = "Kallisto"

    def __init__(self, bench, number):
        super().__init__(bench, f"-{number}")
        self.number, self.cluster_port = number, free_port()
        self.key = None

    def start(self):
        (self.directory / "data").mkdir(exist_ok=True)
        config = self.directory / "config.hcl"
        config.write_text(f"""
storage "raft" {{
  path    = "{self.directory}/data"
  node_id = "server-{self.number}"
}}
listener "tcp" {{
  address         = "127.0.0.1:{self.port}"
  cluster_address = "127.0.0.1:{self.cluster_port}"
  tls_disable     = true
}}
api_addr     = "http://127.0.0.1:{self.port}"
cluster_addr = "https://127.0.0.1:{self.cluster_port}"
""")
        self.launch([self.bench.kallisto, "server", f"-config={config}", "-log-level=warn"])
        self.wait_port()

    def unseal(self):
        self.ask("PUT", "/v1/sys/unseal", {"key": self.key})

        def serves():
            try:
                return self.ask("GET", "/v1/sys/health?standbyok=true&perfstandbyok=true") is not None
            except OSError:
                return False
        until(serves, f"server {self.number} unsealed", self.process, UNSEAL_SECS_MAX)

    def leads(self):
        try:
            return self.ask("GET", "/v1/sys/leader")["is_self"]
        except OSError:
            return False

    def wipe(self):
        shutil.rmtree(self.directory / "data")


class EtcdNode(Server):
    name = "etcd"

    def __init__(self, bench, number):
        super().__init__(bench, f"-{number}")
        self.number, self.peer_port, self.members = number, free_port(), ""

    def start(self):
        self.launch([self.bench.debian("usr/bin/etcd"), "--name", f"server-{self.number}",
                     "--data-dir", self.directory / "data",
                     "--listen-client-urls", self.address, "--advertise-client-urls", self.address,
                     "--listen-peer-urls", f"http://127.0.0.1:{self.peer_port}",
                     "--initial-advertise-peer-urls", f"http://127.0.0.1:{self.peer_port}",
                     "--initial-cluster", self.members, "--log-level", "error"])

    def leads(self):
        try:
            status = self.ask("POST", "/v3/maintenance/status", {})
        except OSError:
            return False
        return status["leader"] == status["header"]["member_id"]


class Cluster:
    """Three running servers; `with` stops them."""

    def __init__(self, nodes):
        self.nodes = nodes
        self.name = nodes[0].name
        self.token = ""

    def __enter__(self):
        try:
            for node in self.nodes:
                node.start()
            self.form()
            return self
        except BaseException:
            self.__exit__()
            raise

    def __exit__(self, *_):
        for node in self.nodes:
            node.__exit__()

    def leader(self):
        found = []

        def somebody():
            found[:] = [node for node in self.nodes if node.leads()]
            return len(found) == 1
        until(somebody, f"a leader of {self.name}")
        return found[0]

    def others(self, than):
        return [node for node in self.nodes if node is not than]

    def addresses(self):
        return [node.address for node in self.nodes]


class KallistoCluster(Cluster):
    def __init__(self, bench):
        super().__init__([KallistoNode(bench, number) for number in range(SERVERS)])

    def form(self):
        first = self.nodes[0]
        made = first.ask("PUT", "/v1/sys/init", {"secret_shares": 1, "secret_threshold": 1})
        self.token = made["root_token"]
        for node in self.nodes:
            node.key, node.token = made["keys_base64"][0], self.token
        first.unseal()
        for node in self.nodes[1:]:
            self.join(node)
        first.ask("POST", "/v1/sys/mounts/secret", {"type": "kv", "options": {"version": "2"}})
        self.settle()

    def join(self, node):
        node.ask("POST", "/v1/sys/storage/raft/join", {"leader_api_addr": self.nodes[0].address})
        node.unseal()

    def settle(self):
        """Until every server votes and answers a write."""
        def all_vote():
            try:
                found = self.leader().ask("GET", "/v1/sys/storage/raft/configuration")
            except OSError:
                return False
            servers = found["data"]["config"]["servers"]
            return len(servers) == SERVERS and all(server["voter"] for server in servers)
        until(all_vote, "three voters")
        for node in self.nodes:
            node.ask("POST", "/v1/secret/data/settled", {"data": {"at": node.number}})


class EtcdCluster(Cluster):
    def __init__(self, bench):
        super().__init__([EtcdNode(bench, number) for number in range(SERVERS)])
        members = ",".join(f"server-{node.number}=http://127.0.0.1:{node.peer_port}" for node in self.nodes)
        for node in self.nodes:
            node.members = members

    def form(self):
        self.settle()

    def settle(self):
        def healthy():
            try:
                return all("true" in str(node.ask("GET", "/health")) for node in self.nodes)
            except OSError:
                return False
        until(healthy, "etcd")


class Run:
    def __init__(self, bench, options):
        self.bench, self.options = bench, options
        self.tables, self.samples = [], []

    def load(self, cluster, *arguments, addresses=None):
        command = [str(self.bench.cache / "cluster-load"), f"-kind={cluster.name.lower()}",
                   f"-token={cluster.token}", *map(str, arguments), *(addresses or cluster.addresses())]
        done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, timeout=300)
        if done.returncode:
            raise Skipped(f"{cluster.name}: {done.stderr.decode().strip()[:200]}")
        figures = json.loads(done.stdout)
        figures["who"] = cluster.name
        self.samples.append(figures)
        return figures

    def each(self, measure):
        """What `measure` says of each cluster that can be had, by name."""
        found = {}
        for make in (KallistoCluster, EtcdCluster):
            try:
                with make(self.bench) as cluster:
                    found[cluster.name] = measure(cluster)
            except (Skipped, OSError, subprocess.SubprocessError) as why:
                say(f"SKIPPED {make.__name__}: {why}")
        return found

    def table(self, title, head, rows):
        self.tables.append({"title": title, "head": head, "rows": rows})


def ms(value):
    return f"{value:,.0f}" if value >= 100 else f"{value:,.1f}"


def median_of(figures, key):
    return statistics.median(found[key] for found in figures)


def loads(run, name, title, settings, arguments):
    """Rounds of loads, the clusters in turns; the median of each figure counts."""
    taken = {setting: {} for setting in settings}
    for number in range(run.options.rounds):
        def measure(cluster):
            run.load(cluster, "-clients=64", "-seconds=2")
            return {setting: run.load(cluster, f"-seconds={run.options.seconds}", *arguments(setting))
                    for setting in settings}
        for who, found in run.each(measure).items():
            for setting, figures in found.items():
                taken[setting].setdefault(who, []).append(figures)
                say(f"{name} {setting:,}, {who}, round {number + 1}: {figures['per_second']:,.0f}/s, "
                    f"p50 {figures['p50_ms']} p99 {figures['p99_ms']} max {figures['max_ms']} ms, "
                    f"{figures['failed']} failed")
    rows = []
    for setting in settings:
        ours, theirs = taken[setting].get("Kallisto"), taken[setting].get("etcd")
        for who, found in (("Kallisto", ours), ("etcd", theirs)):
            if not found:
                continue
            ratio = ""
            if who == "Kallisto" and theirs:
                ratio = f"{median_of(ours, 'per_second') / median_of(theirs, 'per_second'):.2f}"
            rows.append([f"{setting:,}", who, f"{median_of(found, 'per_second'):,.0f}",
                         f"{100 * min(one['success'] for one in found):.2f} %",
                         *(ms(median_of(found, f"{part}_ms")) for part in ("p50", "p90", "p95", "p99", "max")),
                         ratio])
    run.table(title, [name, "", "puts/s", "success", "p50 ms", "p90", "p95", "p99", "max", "Kallisto / etcd"], rows)


def puts(run):
    loads(run, "clients", "**Puts, closed loop**: each client has one under way.", CLIENTS,
          lambda clients: [f"-clients={clients}"])


def rates(run):
    loads(run, "offered/s", f"**Puts, open loop**: they fall due at a rate, {RATE_CLIENTS} connections; a latency begins "
          "when the put was due.", RATES,
          lambda rate: [f"-clients={RATE_CLIENTS}", f"-rate={rate}"])


def failover(run):
    def measure(cluster):
        took = []
        for _ in range(run.options.kills):
            leader = cluster.leader()
            time.sleep(0.3)
            found = run.load(cluster, f"-kill={leader.pid}",
                             addresses=[node.address for node in cluster.others(leader)])
            took.append(found["failover_ms"])
            leader.process.wait(10)
            leader.start()
            if isinstance(cluster, KallistoCluster):
                leader.unseal()
            cluster.settle()
        return sorted(took)
    rows = []
    for who, took in run.each(measure).items():
        at = lambda part: took[min(len(took) - 1, int(part * len(took)))]
        rows.append([who, f"{len(took)}", *(ms(value) for value in (took[0], at(.5), at(.9), at(.99), took[-1]))])
        say(f"failover, {who}: {rows[-1]}")
    run.table("**Failover**: a leader is killed by SIGKILL, and the two others are asked to write every 5 ms; milliseconds until the "
              "first put that was sent after the kill is acknowledged. Default timers of both.",
              ["", "kills", "least", "p50", "p90", "p99", "most"], rows)


def stepdown(run):
    """Steps down under a load of writers that must not fail."""
    took, failed, worst = [], 0, []
    with KallistoCluster(run.bench) as cluster:
        for _ in range(run.options.stepdowns):
            command = [str(run.bench.cache / "cluster-load"), "-kind=kallisto", f"-token={cluster.token}",
                       "-clients=16", "-rate=500", "-seconds=2", *cluster.addresses()]
            load = subprocess.Popen(command, stdout=subprocess.PIPE)
            time.sleep(2)
            leader = cluster.leader()
            begin = time.monotonic()
            leader.ask("PUT", "/v1/sys/step-down")
            others = cluster.others(leader)
            until(lambda: any(node.leads() for node in others), "another leader")
            took.append(1000 * (time.monotonic() - begin))
            figures = json.loads(load.communicate(timeout=60)[0])
            run.samples.append(figures)
            failed += figures["failed"]
            worst.append(figures["max_ms"])
    took.sort()
    say(f"step-down: {took}, failed {failed}, the longest puts {worst}")
    run.table("**Step-down** under 500 puts a second on all three servers: milliseconds until another leads, and what the writers saw.",
              ["times", "p50 ms", "most", "failed puts", "longest put, median", "longest put, most"],
              [[f"{len(took)}", ms(statistics.median(took)), ms(took[-1]), f"{failed}",
                ms(statistics.median(worst)), ms(max(worst))]])


def bench_reads(run, node, *arguments):
    command = [run.bench.kallisto, "bench", "http", f"-address={node.address}", "-keys=1000",
               "-value-bytes=128", "-connections=64", f"-duration={run.options.seconds}", "-warm-up=1", "-json", *arguments]
    environment = {**os.environ, "KALLISTO_TOKEN": node.token}
    return subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE)


def finished(process):
    out, error = process.communicate(timeout=300)
    if not out:
        raise Skipped(error.decode().strip()[:200])
    return json.loads(out)


def reads(run):
    rows = []
    with KallistoCluster(run.bench) as cluster:
        leader = cluster.leader()
        follower = cluster.others(leader)[0]
        finished(bench_reads(run, leader, "-prepare"))
        taken = {"the leader": [], "a follower": []}
        for _ in range(run.options.rounds):
            taken["the leader"].append(finished(bench_reads(run, leader)))
            taken["a follower"].append(finished(bench_reads(run, follower)))
        for who, found in taken.items():
            rows.append([who, f"{median_of(found, 'per_second'):,.0f}", f"{sum(one['errors_total'] for one in found)}"])
        together = []
        for _ in range(run.options.rounds):
            running = [bench_reads(run, node) for node in cluster.nodes]
            together.append({"per_second": sum(finished(one)["per_second"] for one in running)})
        rows.append(["all three at once, together", f"{median_of(together, 'per_second'):,.0f}", ""])
    for row in rows:
        say(f"reads: {row}")
    run.table("**Reads over HTTP** (KV version 2, 64 connections, 1,000 keys, servers and load on the same cores).",
              ["asked", "reads/s", "errors"], rows)


def catchup(run):
    """How a cluster saves and restores, and how a server that lost everything comes back."""
    count = run.options.secrets
    rows = []

    def timed(what, function):
        begin = time.monotonic()
        answer = function()
        took = time.monotonic() - begin
        rows.append([what, f"{took:.2f} s"])
        say(f"catchup: {rows[-1]}")
        return answer
    with KallistoCluster(run.bench) as cluster:
        leader = cluster.leader()
        away = cluster.others(leader)[0]
        away.stop(signal.SIGKILL)
        command = [run.bench.kallisto, "bench", "http", f"-address={leader.address}", f"-keys={count}",
                   "-value-bytes=128", "-connections=64", "-duration=1", "-warm-up=0", "-prepare", "-json"]
        environment = {**os.environ, "KALLISTO_TOKEN": leader.token}
        timed(f"{count:,} secrets written, two servers up",
              lambda: subprocess.run(command, env=environment, check=True, stdout=subprocess.DEVNULL, timeout=1_200))

        def read_last():
            headers = {"X-Kallisto-Consistency": "strong", "X-Vault-Token": away.token}
            request = urllib.request.Request(f"{away.address}/v1/secret/data/bench/k{count - 1}", headers=headers)

            def answers():
                try:
                    with urllib.request.urlopen(request, timeout=20) as answer:
                        return answer.status == 200
                except OSError:
                    return False
            until(answers, "to catch up", away.process, CATCH_UP_SECS_MAX)

        def back():
            away.start()
            away.unseal()
            read_last()

        def anew():
            leader.ask("POST", "/v1/sys/storage/raft/remove-peer", {"server_id": f"server-{away.number}"})
            away.start()
            away.ask("POST", "/v1/sys/storage/raft/join", {"leader_api_addr": leader.address})
            away.unseal()
            read_last()
        timed("the server that was away is back, unsealed and reads the last secret", back)
        away.stop(signal.SIGKILL)
        away.wipe()
        timed("a server that lost its disk joins, fetches the state and reads the last secret", anew)
        path = run.bench.work / "snapshot"
        environment = {**os.environ, "VAULT_ADDR": leader.address, "VAULT_TOKEN": leader.token}
        timed("`operator raft snapshot save`", lambda: subprocess.run(
            [run.bench.kallisto, "operator", "raft", "snapshot", "save", str(path)], env=environment, check=True,
            stdout=subprocess.DEVNULL, timeout=600))
        rows.append(["its size", f"{path.stat().st_size / 2**20:,.0f} MiB"])
        timed("`operator raft snapshot restore`", lambda: subprocess.run(
            [run.bench.kallisto, "operator", "raft", "snapshot", "restore", str(path)], env=environment, check=True,
            stdout=subprocess.DEVNULL, timeout=600))
        path.unlink()
    run.table(f"**Catching up** with {count:,} secrets of 128 bytes.", ["", ""], rows)


def markdown(run, facts):
    lines = [f"Commit {facts['commit']}, {facts['date']}, `bench/cluster/run.sh{' --quick' if run.options.quick else ''}`: "
             f"three servers of each kind in turns, with the load on the same {facts['cores']} cores of {facts['processor']}; "
             f"medians of {run.options.rounds} round(s) of {run.options.seconds} s; strict durability; load average at the end "
             f"{facts['load_average']:.1f}. {facts['etcd']}.", ""]
    for table in run.tables:
        lines += [table["title"], "", "| " + " | ".join(table["head"]) + " |",
                  "|---|" + "---:|" * (len(table["head"]) - 1)]
        lines += ["| " + " | ".join(row) + " |" for row in table["rows"]]
        lines.append("")
    return "\n".join(lines)


def main():
    options = driving.parse(__doc__, GROUPS)
    options.seconds = 4 if options.quick else 8
    options.rounds = 1 if options.quick else 3
    options.kills = 10 if options.quick else 50
    options.stepdowns = 5 if options.quick else 20
    options.secrets = 100_000 if options.quick else 1_000_000
    work = pathlib.Path(options.cache) / f"cluster-{os.getpid()}"
    work.mkdir(parents=True)
    cores = ",".join(str(core) for core in range(os.cpu_count()))
    begin = time.time()
    try:
        run = Run(Bench(os.environ["KALLISTO"], options.cache, work, (cores, cores)), options)
        driving.drive(run, {"puts": puts, "rates": rates, "failover": failover, "stepdown": stepdown, "reads": reads,
                            "catchup": catchup}, say)
        facts = report.facts(options, run.bench, time.time() - begin)
    finally:
        shutil.rmtree(work, ignore_errors=True)
    text = markdown(run, facts)
    results = {"tables": run.tables, "samples": run.samples, "facts": facts}
    (pathlib.Path(options.cache) / "cluster.json").write_text(json.dumps(results, indent=1))
    print(text)
    if not options.dry:
        driving.write_between(f"{options.root}/docs/benchmarks/cluster.md", BEGIN, END, text)


if __name__ == "__main__":
    main()
