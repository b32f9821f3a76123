// Drives the server with node-vault: VAULT_ADDR and VAULT_TOKEN name it. Prints one line a check.
"use strict";

const assert = require("node:assert/strict");
const vault = require("node-vault");

const endpoint = process.env.VAULT_ADDR;
const root = vault({ endpoint, token: process.env.VAULT_TOKEN });
const as = (token) => vault({ endpoint, token });
let checks = 0;

function ok(name) {
  checks += 1;
  console.log(`ok ${name}`);
}

async function refused(name, status, work) {
  await assert.rejects(work, (error) => error.response && error.response.statusCode === status);
  ok(name);
}

async function health() {
  const told = await root.health();
  assert.equal(told.sealed, false);
  assert.equal((await root.status()).sealed, false);
  ok("health and seal status");
}

async function keyValueOne() {
  await root.mount({ mount_point: "node-v1", type: "kv", options: { version: "1" } });
  await root.write("node-v1/a/b", { user: "u", n: 1 });
  assert.deepEqual((await root.read("node-v1/a/b")).data, { user: "u", n: 1 });
  assert.deepEqual((await root.list("node-v1/a")).data.keys, ["b"]);
  await root.delete("node-v1/a/b");
  await refused("kv v1: a deleted secret is not found", 404, () => root.read("node-v1/a/b"));
  await root.unmount({ mount_point: "node-v1" });
  ok("kv v1");
}

async function keyValueTwo() {
  await root.mount({ mount_point: "node-v2", type: "kv", options: { version: "2" } });
  await root.write("node-v2/data/a", { data: { v: "1" } });
  await root.write("node-v2/data/a", { data: { v: "2" }, options: { cas: 1 } });
  const read = (await root.read("node-v2/data/a")).data;
  assert.deepEqual([read.data, read.metadata.version], [{ v: "2" }, 2]);
  await refused("kv v2: a stale check-and-set", 400, () =>
    root.write("node-v2/data/a", { data: { v: "3" }, options: { cas: 1 } }));
  assert.deepEqual((await root.list("node-v2/metadata")).data.keys, ["a"]);
  assert.equal((await root.read("node-v2/metadata/a")).data.current_version, 2);
  await root.delete("node-v2/data/a");
  await refused("kv v2: a deleted version is missing", 404, () => root.read("node-v2/data/a"));
  ok("kv v2");
}

async function tokens() {
  const rules = 'path "node-v2/data/mine/*" { capabilities = ["create", "read"] }';
  await root.addPolicy({ name: "node-p", rules });
  assert.equal((await root.getPolicy({ name: "node-p" })).data.rules, rules);
  const made = await root.tokenCreate({ policies: ["node-p"], ttl: "1h", renewable: true });
  // node-vault takes every token that it is handed for its own.
  root.token = process.env.VAULT_TOKEN;
  const mine = as(made.auth.client_token);
  await mine.write("node-v2/data/mine/x", { data: { a: "b" } });
  await refused("a token may no more than its policies say", 403, () => mine.read("node-v2/data/a"));
  assert.ok((await mine.tokenLookupSelf()).data.ttl > 3500);
  assert.equal((await mine.tokenRenewSelf({ increment: 600 })).auth.lease_duration, 600);
  await root.tokenRevoke({ token: made.auth.client_token });
  await refused("a revoked token", 403, () => mine.tokenLookupSelf());
  await root.removePolicy({ name: "node-p" });
  ok("policies and the life of a token");
}

async function wrapping() {
  const wrapped = await root.request({
    path: "/node-v2/metadata/a",
    method: "GET",
    headers: { "X-Vault-Wrap-TTL": "60" },
  });
  const token = wrapped.wrap_info.token;
  assert.equal((await root.unwrap({ token })).data.current_version, 2);
  await refused("a wrapped answer is given once", 400, () => root.unwrap({ token }));
  ok("wrapping");
}

async function approle() {
  await root.enableAuth({ mount_point: "node-approle", type: "approle" });
  const at = { mount_point: "node-approle", role_name: "web" };
  await root.addApproleRole({ ...at, policies: "default", token_ttl: 600 });
  const roleId = (await root.getApproleRoleId(at)).data.role_id;
  const secretId = (await root.getApproleRoleSecret(at)).data.secret_id;
  const anyone = vault({ endpoint });
  const login = { mount_point: "node-approle", role_id: roleId, secret_id: secretId };
  const told = await anyone.approleLogin(login);
  assert.equal(told.auth.lease_duration, 600);
  assert.equal(told.auth.metadata.role_name, "web");
  await refused("approle: a wrong secret id", 400, () =>
    vault({ endpoint }).approleLogin({ ...login, secret_id: "wrong" }));
  await root.disableAuth({ mount_point: "node-approle" });
  await refused("approle: its tokens end with it", 403, () =>
    as(told.auth.client_token).tokenLookupSelf());
  ok("approle");
}

async function transit() {
  await root.mount({ mount_point: "node-transit", type: "transit" });
  await root.write("node-transit/keys/k", {});
  const plaintext = Buffer.from("attack at dawn").toString("base64");
  const { ciphertext } = (await root.write("node-transit/encrypt/k", { plaintext })).data;
  assert.match(ciphertext, /^vault:v1:/);
  await root.write("node-transit/keys/k/rotate", {});
  const rewrapped = (await root.write("node-transit/rewrap/k", { ciphertext })).data.ciphertext;
  assert.match(rewrapped, /^vault:v2:/);
  const opened = await root.write("node-transit/decrypt/k", { ciphertext: rewrapped });
  assert.equal(opened.data.plaintext, plaintext);
  ok("transit");
}

(async () => {
  for (const walk of [health, keyValueOne, keyValueTwo, tokens, wrapping, approle, transit]) {
    await walk();
  }
  console.log(`${checks} checks`);
})().catch((error) => {
  console.error("FAIL", error);
  process.exit(1);
});
