"""A name server for the walk of ACME: acme_dns.py PORT ADDRESS TEXTS, with dnslib.

Every name below example.test is at ADDRESS; metadata.example.test is where a cloud keeps its secrets; half.example.test is at both. The texts of a name are the lines of the
file of that name in the folder TEXTS. Answers by UDP and by TCP.
"""

import pathlib
import sys
import time

from dnslib import A, QTYPE, RCODE, RR, TXT
from dnslib.server import BaseResolver, DNSServer

METADATA = "169.254.169.254"


class Names(BaseResolver):
    def __init__(self, address, texts):
        self.address = address
        self.texts = pathlib.Path(texts)

    def resolve(self, request, handler):
        reply = request.reply()
        name = str(request.q.qname).rstrip(".").lower()
        kind = QTYPE[request.q.qtype]
        if not name.endswith("example.test"):
            reply.header.rcode = RCODE.NXDOMAIN
        elif kind == "A":
            addresses = {
                "metadata.example.test": [METADATA],
                "half.example.test": [self.address, METADATA],
            }.get(name, [self.address])
            for address in addresses:
                reply.add_answer(RR(request.q.qname, QTYPE.A, rdata=A(address), ttl=0))
        elif kind == "TXT" and (self.texts / name).is_file():
            for line in (self.texts / name).read_text().split():
                reply.add_answer(RR(request.q.qname, QTYPE.TXT, rdata=TXT(line), ttl=0))
        return reply


port, address, texts = int(sys.argv[1]), sys.argv[2], sys.argv[3]
for tcp in (False, True):
    DNSServer(Names(address, texts), port=port, address="127.0.0.1", tcp=tcp).start_thread()
print("ready", flush=True)
while True:
    time.sleep(60)
