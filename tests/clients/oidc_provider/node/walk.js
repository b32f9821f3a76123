// An application that lets users log in with openid-client, a certified relying party, at one or more servers of a cluster:
//
//   node walk.js ADDRESS [ADDRESS OF ANOTHER SERVER...]
//
// The user's browser is played by what the page does: it asks `authorize` with the user's token. VAULT_TOKEN is root's.

import assert from "node:assert/strict";
import { randomBytes } from "node:crypto";
import * as client from "openid-client";

const [address, ...others] = process.argv.slice(2);
const all = [address, ...others];
const CALLBACK = "http://127.0.0.1:8250/oidc/callback";
const RACERS = 64;
const prefix = `w${randomBytes(4).toString("hex")}`;
let checks = 0;

function ok(what) {
  checks += 1;
  console.log(`ok  ${what}`);
}

// Up to where this program has seen what the cluster committed: a server that is behind that asks the leader.
let seen;

async function api(method, path, body, token = process.env.VAULT_TOKEN, server = address) {
  const recent = seen === undefined ? {} : { "X-Vault-Index": seen, "X-Vault-Inconsistent": "forward-active-node" };
  const reply = await fetch(`${server}/v1/${path}`, {
    method,
    headers: { "X-Vault-Token": token, "Content-Type": "application/json", ...recent },
    body: body === undefined ? undefined : JSON.stringify(body),
  });
  seen = reply.headers.get("x-vault-index") ?? seen;
  const text = await reply.text();
  return { status: reply.status, body: text === "" ? {} : JSON.parse(text) };
}

async function done(method, path, body, token) {
  const reply = await api(method, path, body, token);
  assert.ok(reply.status < 300, `${method} ${path}: ${reply.status} ${JSON.stringify(reply.body)}`);
  return reply.body;
}

async function setUp() {
  const mounts = (await done("GET", "sys/auth")).data;
  if (mounts["userpass/"] === undefined) {
    await done("POST", "sys/auth/userpass", { type: "userpass" });
  }
  const policy = 'path "identity/oidc/provider/+/authorize" { capabilities = ["read", "update"] }';
  await done("PUT", `sys/policies/acl/${prefix}`, { policy });
  await done("POST", `auth/userpass/users/${prefix}`, { password: "pw", token_policies: prefix });
  const login = await done("POST", `auth/userpass/login/${prefix}`, { password: "pw" });
  const { client_token: token, entity_id: entity } = login.auth;
  await done("POST", `identity/entity/id/${entity}`, { name: prefix, metadata: { email: "ann@example.com" } });
  const group = await done("POST", "identity/group", { name: `${prefix}-admins`, member_entity_ids: [entity] });
  await done("POST", `identity/oidc/assignment/${prefix}`, { group_ids: [group.data.id] });
  await done("POST", `identity/oidc/scope/${prefix}-profile`, {
    template: '{"username": {{identity.entity.name}}, "contact": {"email": {{identity.entity.metadata.email}} }, "updated": {{time.now}} }',
  });
  await done("POST", `identity/oidc/scope/${prefix}-groups`, { template: '{"groups": {{identity.entity.groups.names}} }' });
  await done("POST", `identity/oidc/provider/${prefix}`, {
    allowed_client_ids: "*",
    scopes_supported: [`${prefix}-profile`, `${prefix}-groups`],
    issuer: address,
  });
  return { token, entity };
}

async function makeClient(name, key, type) {
  await done("POST", `identity/oidc/client/${prefix}-${name}`, {
    key,
    client_type: type,
    redirect_uris: ["http://127.0.0.1/oidc/callback"],
    assignments: [prefix],
    id_token_ttl: "30m",
    access_token_ttl: "1h",
  });
  return (await done("GET", `identity/oidc/client/${prefix}-${name}`)).data;
}

async function discover(made, method) {
  const issuer = new URL(`${address}/v1/identity/oidc/provider/${prefix}`);
  const key = (await done("GET", `identity/oidc/key/${made.key}`)).data;
  const config = await client.discovery(
    issuer,
    made.client_id,
    { id_token_signed_response_alg: key.algorithm },
    method,
    { execute: [client.allowInsecureRequests] },
  );
  assert.ok(config.serverMetadata().supportsPKCE());
  return config;
}

// What the page does with the URL that the application sent the browser to.
async function agree(url, token, server = address) {
  assert.match(url.pathname, /^\/ui\/vault\/identity\/oidc\/provider\/[^/]+\/authorize$/);
  const path = url.pathname.replace(/^\/ui\/vault\//, "");
  const reply = await api("GET", `${path}?${url.searchParams}`, undefined, token, server);
  const back = new URL(url.searchParams.get("redirect_uri"));
  for (const [name, value] of Object.entries(reply.body)) {
    back.searchParams.set(name, value);
  }
  return back;
}

async function logIn(config, user, withPkce, server) {
  const nonce = client.randomNonce();
  const state = client.randomState();
  const verifier = client.randomPKCECodeVerifier();
  const parameters = {
    redirect_uri: CALLBACK,
    scope: `openid ${prefix}-profile ${prefix}-groups`,
    nonce,
    state,
    max_age: "3600",
  };
  if (withPkce) {
    parameters.code_challenge = await client.calculatePKCECodeChallenge(verifier);
    parameters.code_challenge_method = "S256";
  }
  const back = await agree(client.buildAuthorizationUrl(config, parameters), user.token, server);
  const expected = { expectedNonce: nonce, expectedState: state, maxAge: 3600, idTokenExpected: true };
  if (withPkce) {
    expected.pkceCodeVerifier = verifier;
  }
  return { back, expected };
}

async function walk(user, key, type, name, method, withPkce, server) {
  const made = await makeClient(name, key, type);
  const config = await discover(made, method(made));
  const { back, expected } = await logIn(config, user, withPkce, server);
  const tokens = await client.authorizationCodeGrant(config, back, expected);
  const claims = tokens.claims();
  assert.equal(claims.sub, user.entity);
  assert.equal(claims.aud, made.client_id);
  assert.equal(claims.username, prefix);
  assert.deepEqual(claims.groups, [`${prefix}-admins`]);
  assert.equal(claims.exp - claims.iat, 1800);
  assert.equal(tokens.expires_in, 3600);
  const info = await client.fetchUserInfo(config, tokens.access_token, user.entity);
  assert.equal(info.contact.email, "ann@example.com");
  ok(`${name}: login, ID token and userinfo`);
  await assert.rejects(client.authorizationCodeGrant(config, back, expected), { error: "invalid_grant" });
  await assert.rejects(client.fetchUserInfo(config, tokens.access_token, user.entity));
  ok(`${name}: the code again is refused, and ends the access token`);
  return { made, config };
}

async function refusals(user, { config }) {
  const { back, expected } = await logIn(config, user, true);
  const wrong = { ...expected, pkceCodeVerifier: client.randomPKCECodeVerifier() };
  await assert.rejects(client.authorizationCodeGrant(config, back, wrong), { error: "invalid_grant" });
  ok("a wrong verifier is refused");
  const stripped = await logIn(config, user, true);
  delete stripped.expected.pkceCodeVerifier;
  await assert.rejects(client.authorizationCodeGrant(config, stripped.back, stripped.expected), { error: "invalid_request" });
  ok("no verifier is refused");
  const bare = await logIn(config, user, false);
  assert.equal(bare.back.searchParams.get("error"), "invalid_request");
  ok("a public client without PKCE is refused");
  const url = client.buildAuthorizationUrl(config, { redirect_uri: "https://evil.example/", scope: "openid", state: "x" });
  assert.equal((await agree(url, user.token)).searchParams.get("error"), "invalid_redirect_uri");
  ok("another redirect URI is refused");
}

async function race(user, { made }) {
  const nonce = client.randomNonce();
  const path = `identity/oidc/provider/${prefix}`;
  const query = new URLSearchParams({
    client_id: made.client_id, redirect_uri: CALLBACK, scope: "openid", response_type: "code", state: "s", nonce,
  });
  const { code } = await done("GET", `${path}/authorize?${query}`, undefined, user.token);
  const basic = Buffer.from(`${made.client_id}:${made.client_secret}`).toString("base64");
  const bring = async (at) => {
    const reply = await fetch(`${all[at % all.length]}/v1/${path}/token`, {
      method: "POST",
      headers: { Authorization: `Basic ${basic}` },
      body: new URLSearchParams({ grant_type: "authorization_code", code, redirect_uri: CALLBACK }),
    });
    return { status: reply.status, body: await reply.json() };
  };
  const replies = await Promise.all(Array.from({ length: RACERS }, (_, at) => bring(at)));
  const given = replies.filter((reply) => reply.status === 200);
  const refused = replies.filter((reply) => reply.body.error === "invalid_grant");
  assert.deepEqual([given.length, refused.length], [1, RACERS - 1], JSON.stringify(replies.map((r) => r.status)));
  const info = await fetch(`${address}/v1/${path}/userinfo`, {
    headers: { Authorization: `Bearer ${given[0].body.access_token}` },
  });
  assert.equal(info.status, 401);
  ok(`of ${RACERS} that bring a code at once one is given tokens`);
}

const user = await setUp();
for (const algorithm of ["RS256", "RS384", "RS512", "ES256", "ES384", "ES512", "EdDSA"]) {
  const key = `${prefix}-${algorithm.toLowerCase()}`;
  await done("POST", `identity/oidc/key/${key}`, { algorithm, allowed_client_ids: "*" });
  await walk(user, key, "confidential", algorithm, (made) => client.ClientSecretBasic(made.client_secret), false);
}
const confidential = await walk(user, "default", "confidential", "post", (made) => client.ClientSecretPost(made.client_secret), true);
const open = await walk(user, "default", "public", "public", () => client.None(), true);
for (const [at, server] of others.entries()) {
  await walk(user, "default", "public", `through-${at}`, () => client.None(), true, server);
}
await refusals(user, open);
await race(user, confidential);
console.log(`${checks} checks`);
