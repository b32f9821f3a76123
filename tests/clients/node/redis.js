// Reads and writes secrets with node-redis. RESP_PORT names the server's port, VAULT_TOKEN the token; RESP_SOCKET, if
// set, a path to connect to instead. Prints one line a check.
"use strict";

const assert = require("node:assert/strict");
const { createClient } = require("redis");

const password = process.env.VAULT_TOKEN;
const socket = process.env.RESP_SOCKET
  ? { path: process.env.RESP_SOCKET }
  : { host: "127.0.0.1", port: Number(process.env.RESP_PORT) };

function ok(name) {
  console.log(`ok ${name}`);
}

async function refused(name, options, words) {
  const client = createClient({ socket: { ...socket, reconnectStrategy: false }, ...options });
  client.on("error", () => {});
  await assert.rejects(
    async () => {
      await client.connect();
      await client.get("a");
    },
    (error) => words.test(error.message),
  );
  await client.disconnect().catch(() => {});
  ok(name);
}

async function main() {
  await refused("refused without a token", {}, /NOAUTH/);
  await refused("refused with a wrong token", { password: "wrong" }, /WRONGPASS/);
  const client = createClient({ socket, password });
  await client.connect();
  assert.equal(await client.set("node-redis/a", "1"), "OK");
  assert.equal(await client.get("node-redis/a"), "1");
  assert.equal(await client.get("node-redis/none"), null);
  ok("set and get");
  assert.equal(await client.hSet("node-redis/h", { user: "u", password: "p" }), 2);
  assert.deepEqual({ ...(await client.hGetAll("node-redis/h")) }, { user: "u", password: "p" });
  ok("hashes");
  const many = await Promise.all(Array.from({ length: 500 }, () => client.get("node-redis/a")));
  assert(many.every((value) => value === "1"));
  ok("500 pipelined reads");
  const found = [];
  for await (const key of client.scanIterator({ MATCH: "node-redis/*" })) found.push(key);
  assert.deepEqual(found.sort(), ["node-redis/a", "node-redis/h"]);
  ok("scan");
  assert.equal(await client.del(["node-redis/a", "node-redis/h"]), 2);
  assert.equal(await client.exists("node-redis/a"), 0);
  ok("del and exists");
  await client.quit();
}

main().catch((error) => {
  console.error(`FAIL ${error.stack}`);
  process.exit(1);
});
