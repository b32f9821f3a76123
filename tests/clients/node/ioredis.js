// Reads and writes secrets with ioredis in its default settings. RESP_PORT names the server's port, VAULT_TOKEN the token; KALLISTO the binary, of
// which it starts a server of its own to have it end and come back. Prints one line a check.
"use strict";

const assert = require("node:assert/strict");
const { spawn } = require("node:child_process");
const Redis = require("ioredis").default;

const password = process.env.VAULT_TOKEN;
const port = Number(process.env.RESP_PORT);

function ok(name) {
  console.log(`ok ${name}`);
}

async function refused(name, options, words) {
  const client = new Redis({ port, retryStrategy: null, maxRetriesPerRequest: 0, ...options });
  const told = [];
  client.on("error", (error) => told.push(error.message));
  await assert.rejects(client.get("a"), words);
  client.disconnect();
  ok(name);
}

async function readsAndWrites(client) {
  assert.equal(await client.set("ioredis/a", "1"), "OK");
  assert.equal(await client.get("ioredis/a"), "1");
  assert.equal(await client.get("ioredis/none"), null);
  assert.deepEqual(await client.getBuffer("ioredis/a"), Buffer.from("1"));
  assert.deepEqual(await client.mget("ioredis/a", "ioredis/none"), ["1", null]);
  ok("set and get");
  await client.hset("ioredis/h", { user: "u", password: "p" });
  assert.deepEqual({ ...(await client.hgetall("ioredis/h")) }, { user: "u", password: "p" });
  ok("hashes");
  const pipeline = client.pipeline();
  for (let at = 0; at < 500; at += 1) pipeline.set(`ioredis/p${at % 7}`, `${at}`).get(`ioredis/p${at % 7}`);
  const replies = await pipeline.exec();
  assert(replies.every(([error]) => error === null));
  assert.equal(replies[999][1], "499");
  ok("a pipeline of 1000 commands");
  const found = new Set();
  for await (const keys of client.scanStream({ match: "ioredis/*", count: 3 })) keys.forEach((key) => found.add(key));
  assert.equal(found.size, 9);
  ok("a stream of a scan");
}

async function transactions(client) {
  await assert.rejects(client.multi().set("ioredis/t", "1").set("ioredis/u", "1").exec(), /EXECABORT/);
  assert.equal(await client.exists("ioredis/t", "ioredis/u"), 0);
  assert.equal(await client.get("ioredis/a"), "1");
  ok("a transaction is refused with all that is in it");
  await assert.rejects(client.watch("ioredis/a"), /unknown command/);
  await assert.rejects(client.set("ioredis/a", "1", "EX", 60), /delete_version_after/);
  ok("what there is not is refused");
}

function start(respPort, httpPort) {
  const flags = ["-dev", "-dev-root-token-id=root", `-dev-listen-address=127.0.0.1:${httpPort}`];
  const server = spawn(process.env.KALLISTO, ["server", ...flags, `-dev-resp-listen-address=127.0.0.1:${respPort}`], { stdio: "ignore" });
  return { server, ended: new Promise((done) => server.on("exit", done)) };
}

async function reconnects([respPort, httpPort]) {
  let running = start(respPort, httpPort);
  const client = new Redis({ port: respPort, password: "root", maxRetriesPerRequest: null });
  client.on("error", () => {});
  try {
    assert.equal(await client.set("a", "before"), "OK");
    running.server.kill();
    await running.ended;
    // Asked while nobody listens: it waits, and the client logs in again by itself. A dev server comes back empty.
    const waiting = client.get("a");
    running = start(respPort, httpPort);
    assert.equal(await waiting, null);
    assert.equal(await client.set("a", "after"), "OK");
    ok("a server that ended and came back");
  } finally {
    client.disconnect();
    running.server.kill();
    await running.ended;
  }
}

async function main() {
  await refused("refused without a token", {}, /NOAUTH/);
  await refused("refused with a wrong token", { password: "wrong" }, /WRONGPASS/);
  const client = new Redis({ port, password });
  await readsAndWrites(client);
  await transactions(client);
  await client.quit();
  const batching = new Redis({ port, password, enableAutoPipelining: true });
  const written = await Promise.all(Array.from({ length: 300 }, (_, at) => batching.set(`ioredis/q${at % 5}`, `${at}`)));
  assert(written.every((reply) => reply === "OK"));
  await batching.quit();
  ok("automatic pipelines");
  if (process.env.KALLISTO) await reconnects(process.argv.slice(2));
}

main().catch((error) => {
  console.error(`FAIL ${error.stack}`);
  process.exit(1);
});
