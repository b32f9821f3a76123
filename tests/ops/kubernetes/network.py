"""The network of a cluster in namespaces of its own: a bridge between pods, addresses of services, and names.

Nothing here has a way to another network: this runs in a network namespace that has no interface but those made below. Addresses are of the ranges that
are kept for documentation (RFC 5737), since the API server takes no loopback address as that of an endpoint.

What kube-proxy and the cluster's DNS do is done in small: a connection to a service goes to one of its ready endpoints, and names are in a file of hosts that
every container reads. Both follow the EndpointSlices that the real controller writes.
"""

import os
import pathlib
import random
import socket
import subprocess
import sys
import threading

PODS, HOST = "192.0.2.{}", "192.0.2.1"
SERVICES, API_SERVICE = "198.51.100.0/24", "198.51.100.1"
POD_FIRST, POD_LAST = 10, 250
WAIT_SECS = 5
ENTERED = "KALLISTO_TEST_NAMESPACES"


def enter():
    """Runs this program again in namespaces of its own: what it mounts, and its network, end with it."""
    if os.environ.get(ENTERED):
        return
    os.environ[ENTERED] = "1"
    os.execvp("unshare", ["unshare", "--net", "--mount", "--propagation", "private", "--pid", "--fork", "--mount-proc", "--kill-child", sys.executable, *sys.argv])


def ip(*words):
    subprocess.run(["ip", *words], check=True, capture_output=True)


class Network:
    def __init__(self, work):
        self.folder = pathlib.Path(work)
        self.folder.mkdir()
        self.lock = threading.Lock()
        self.last = POD_FIRST - 1
        self.proxies = {}
        pathlib.Path("/run/netns").mkdir(exist_ok=True)
        subprocess.run(["mount", "-t", "tmpfs", "tmpfs", "/run/netns"], check=True)
        ip("link", "set", "lo", "up")
        ip("address", "add", SERVICES, "dev", "lo")
        # An address of its own: else it is that of one of its ports, and another one when that pod is gone.
        ip("link", "add", "pods", "address", "02:00:00:00:00:01", "type", "bridge")
        ip("address", "add", f"{HOST}/24", "dev", "pods")
        ip("link", "set", "pods", "up")
        self.write_hosts([], [])

    def add_pod(self):
        """An address that no pod had before, and the namespace in which it is."""
        with self.lock:
            self.last += 1
            number = self.last
        assert number <= POD_LAST, "the walk has more pods than addresses"
        name, address = f"pod{number}", PODS.format(number)
        ip("netns", "add", name)
        ip("link", "add", name, "type", "veth", "peer", "name", "eth0", "netns", name)
        ip("link", "set", name, "master", "pods", "up")
        inside = ("-n", name)
        ip(*inside, "link", "set", "lo", "up")
        ip(*inside, "address", "add", f"{address}/24", "dev", "eth0")
        ip(*inside, "link", "set", "eth0", "up")
        ip(*inside, "route", "add", "default", "via", HOST)
        return name, address

    def remove_pod(self, name):
        ip("netns", "delete", name)

    def follow(self, services, slices):
        """Names and proxies as the cluster has them now."""
        self.write_hosts(services, slices)
        for service in services:
            address = service["spec"].get("clusterIP", "None")
            for port in service["spec"]["ports"] if address != "None" else []:
                place = (address, port["port"])
                if place not in self.proxies:
                    self.proxies[place] = Proxy(place)
                self.proxies[place].targets = targets_of(service, port, slices)

    def write_hosts(self, services, slices):
        lines = ["127.0.0.1 localhost", "::1 localhost"]
        for service in services:
            names, address = names_of(service), service["spec"].get("clusterIP", "None")
            if address != "None":
                lines.append(f"{address} {' '.join(names)}")
            for _, endpoint in endpoints_of(service, slices) if address == "None" else []:
                if ready(endpoint) and endpoint.get("hostname"):
                    lines.append(f"{endpoint['addresses'][0]} {' '.join(endpoint['hostname'] + '.' + name for name in names)}")
        # Replaced, never half: somebody may read it.
        (self.folder / "hosts.new").write_text("\n".join(lines) + "\n")
        (self.folder / "hosts.new").rename(self.folder / "hosts")


def names_of(service):
    name, space = service["metadata"]["name"], service["metadata"]["namespace"]
    return [name, f"{name}.{space}", f"{name}.{space}.svc", f"{name}.{space}.svc.cluster.local"]


def endpoints_of(service, slices):
    """With the slice that has each."""
    for one in slices:
        meta = one["metadata"]
        if meta["namespace"] == service["metadata"]["namespace"] and meta["labels"].get("kubernetes.io/service-name") == service["metadata"]["name"]:
            yield from ((one, endpoint) for endpoint in one["endpoints"] or [])


def ready(endpoint):
    return endpoint["conditions"].get("ready", True)


def targets_of(service, port, slices):
    found = []
    for one, endpoint in endpoints_of(service, slices):
        number = next((inner["port"] for inner in one["ports"] if inner.get("name", "") == port.get("name", "")), None)
        if number and ready(endpoint):
            found.append((endpoint["addresses"][0], number))
    return found


class Proxy:
    """A service's address: each connection goes to one of its endpoints, and stays there until it ends."""

    def __init__(self, place):
        self.targets = []
        self.listener = socket.create_server(place)
        threading.Thread(target=self.serve, daemon=True).start()

    def serve(self):
        while True:
            client, _ = self.listener.accept()
            threading.Thread(target=self.relay, args=(client,), daemon=True).start()

    def relay(self, client):
        with client:
            try:
                with socket.create_connection(random.choice(self.targets), WAIT_SECS) as server:
                    server.settimeout(None)
                    back = threading.Thread(target=pump, args=(server, client), daemon=True)
                    back.start()
                    pump(client, server)
                    back.join()
            except (OSError, IndexError):
                # No endpoint, or one that is gone: the client's connection ends.
                return


def pump(source, target):
    try:
        while piece := source.recv(65536):
            target.sendall(piece)
        target.shutdown(socket.SHUT_WR)
    except OSError:
        for one in (source, target):
            try:
                one.shutdown(socket.SHUT_RDWR)
            except OSError:
                pass
