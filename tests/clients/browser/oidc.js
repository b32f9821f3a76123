// Logs in through a real, headless Chromium: by Kallisto's command line and by OpenBao's, at `oidc-provider-mock` and at OpenBao as the provider.
//
//   node oidc.js      (VAULT_ADDR, VAULT_TOKEN of root; KALLISTO, BAO, OIDC_MOCK: programs; CHROMIUM: the browser)
//
// Ends what it started, by process. Prints `ok WHAT` a check, and ends with 1 at the first that fails.
"use strict";
const { spawn } = require("node:child_process");
const crypto = require("node:crypto");
const fs = require("node:fs");
const http = require("node:http");
const net = require("node:net");
const os = require("node:os");
const path = require("node:path");
const { chromium } = require("playwright-core");

const { VAULT_ADDR, VAULT_TOKEN, KALLISTO, BAO, OIDC_MOCK, CHROMIUM } = process.env;
const PATIENCE = 30000;
const home = fs.mkdtempSync(path.join(os.tmpdir(), "oidc-walk-"));
const children = [];
let checks = 0;

function ok(what, holds, told = "") {
  if (!holds) throw new Error(`FAIL ${what}: ${told}`);
  checks += 1;
  console.log(`ok ${what}`);
}

function start(program, args, env = {}) {
  const clean = { PATH: process.env.PATH, HOME: home, ...env };
  const child = spawn(program, args, { env: clean, stdio: ["ignore", "pipe", "pipe"] });
  child.said = "";
  const hear = (bytes) => { child.said += bytes; };
  child.stdout.on("data", hear);
  child.stderr.on("data", hear);
  child.ended = new Promise((resolve) => child.on("close", resolve));
  children.push(child);
  return child;
}

async function until(what, holds) {
  const end = Date.now() + PATIENCE;
  for (;;) {
    const found = await holds();
    if (found) return found;
    if (Date.now() > end) throw new Error(`FAIL waited in vain for ${what}`);
    await new Promise((resolve) => setTimeout(resolve, 50));
  }
}

function freePort() {
  return new Promise((resolve) => {
    const server = net.createServer().listen(0, "127.0.0.1", () => {
      const { port } = server.address();
      server.close(() => resolve(port));
    });
  });
}

async function api(address, token, method, where, body) {
  const headers = token ? { "X-Vault-Token": token } : {};
  const reply = await fetch(`${address}/v1/${where}`, { method, headers, body: body && JSON.stringify(body) });
  const text = await reply.text();
  let json = {};
  try { json = JSON.parse(text); } catch { /* no JSON: the status says enough */ }
  return { status: reply.status, json, text };
}
const ours = (method, where, body, token = VAULT_TOKEN) => api(VAULT_ADDR, token, method, where, body);
async function good(reply) {
  const answered = await reply;
  if (answered.status >= 300) throw new Error(`FAIL ${answered.status} ${answered.text}`);
  return answered.json;
}

// What runs in a page that should run nothing.
const PAYLOADS = [
  "<script>window.ran=1;alert(1)</script>",
  "\"><script>window.ran=1</script>",
  "<img src=x onerror=\"window.ran=1;alert(1)\">",
  "<svg/onload=alert(1)>",
  "</title><script>alert(1)</script>",
  "'-alert(1)-'",
  "javascript:alert(1)",
  "<iframe srcdoc=\"<script>parent.ran=1</script>\">",
  "<body onpageshow=alert(1)>",
  "<details open ontoggle=alert(1)>",
  "<meta http-equiv=refresh content=\"0;url=javascript:alert(1)\">",
  "<base href=//evil.example/><a id=x>",
  "<form action=javascript:alert(1)><input type=submit autofocus onfocus=alert(1)>",
  "\u2028alert(1)",
  "<math><mtext></form><form><mglyph><style></math><img src onerror=alert(1)>",
  "%3Cscript%3Ealert(1)%3C/script%3E",
  "{{constructor.constructor('alert(1)')()}}",
  "<script>alert(1)".repeat(50),
];

async function main() {
  const mockPort = await freePort();
  start(OIDC_MOCK, ["--port", `${mockPort}`]);
  const issuer = `http://localhost:${mockPort}`;
  await until("the mock", () => fetch(`${issuer}/.well-known/openid-configuration`).then((r) => r.ok, () => false));
  await good(ours("POST", "sys/auth/browser", { type: "oidc" }));
  await good(ours("POST", "auth/browser/config", {
    oidc_discovery_url: issuer, oidc_client_id: "kallisto", oidc_client_secret: "secret", default_role: "dev",
  }));
  const role = { user_claim: "sub", allowed_redirect_uris: ["http://localhost:8250/oidc/callback"] };
  await good(ours("POST", "auth/browser/role/dev", role));
  const callback = `${VAULT_ADDR}/v1/auth/browser/oidc/callback`;
  await good(ours("POST", "auth/browser/role/direct", {
    user_claim: "sub", allowed_redirect_uris: [callback], callback_mode: "direct",
  }));

  const browser = await chromium.launch({
    executablePath: CHROMIUM, headless: true,
    args: ["--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking",
      "--disable-component-update", "--disable-sync"],
  });
  const context = await browser.newContext();
  // The mock's page wants a style sheet of somebody else's.
  await context.route((url) => url.hostname !== "localhost" && url.hostname !== "127.0.0.1", (route) => route.abort());
  const page = await context.newPage();
  const dialogs = [];
  page.on("dialog", (dialog) => { dialogs.push(dialog.message()); dialog.dismiss(); });

  // The page of the mock: a name, and a button.
  async function logInAtMock(url, name) {
    await page.goto(url, { waitUntil: "domcontentloaded" });
    await page.fill("input[name=sub]", name);
    await page.click("button:has-text(\"Authorize\")");
    await page.waitForLoadState("domcontentloaded");
  }

  await commandLine(KALLISTO, "kallisto", page, logInAtMock);
  if (BAO) await commandLine(BAO, "bao", page, logInAtMock);
  else console.log("*** SKIPPED: bao as a client: no program");
  await direct(page, callback, logInAtMock);
  await scripts(page, dialogs, callback);
  await formPost(page, dialogs);
  if (BAO) await provider(page);
  else console.log("*** SKIPPED: OpenBao as a provider: no program");
  await browser.close();
}

// `login -method=oidc` of a command line.
async function commandLine(program, name, page, logInAtMock) {
  const port = await freePort();
  const env = { VAULT_ADDR, BAO_ADDR: VAULT_ADDR };
  const words = ["login", "-method=oidc", "-path=browser", "-format=json", "role=dev", `port=${port}`, "skip_browser=true"];
  const child = start(program, words, env);
  const url = await until("an address", () => (child.said.match(/http:\/\/localhost:\d+\/oauth2\/authorize\S+/) || [])[0]);
  await logInAtMock(url, "ann");
  if (name === "kallisto") await until("the page of the command", async () => (await page.title()) === "Signed in");
  const code = await child.ended;
  ok(`${name}: logs in`, code === 0, child.said);
  const file = [".vault-token", ".bao-token"].map((it) => path.join(home, it)).find((it) => fs.existsSync(it));
  const token = fs.readFileSync(file, "utf8").trim();
  fs.unlinkSync(file);
  const seen = await good(ours("GET", "auth/token/lookup-self", undefined, token));
  ok(`${name}: the token is the user's`, seen.data.display_name === "browser-ann", JSON.stringify(seen.data));

  // The user says no. The mock then forgets the state, which no provider may (RFC 6749, section 4.1.2.1), so its part is done here.
  const refused = start(program, words.map((word) => (word.startsWith("port=") ? `port=${port}` : word)), env);
  const again = new URL(await until("an address",
    () => (refused.said.match(/http:\/\/localhost:\d+\/oauth2\/authorize\S+/) || [])[0]));
  const answer = { error: "access_denied", error_description: PAYLOADS[0], state: again.searchParams.get("state") };
  await page.goto(`${again.searchParams.get("redirect_uri")}?${new URLSearchParams(answer)}`, { waitUntil: "domcontentloaded" });
  ok(`${name}: a refusal is one`, (await refused.ended) !== 0, refused.said);
}

// By direct callback: no token before the button.
async function direct(page, callback, logInAtMock) {
  const begin = () => good(ours("POST", "auth/browser/oidc/auth_url",
    { role: "direct", redirect_uri: callback, client_nonce: "n" }, ""));
  const poll = (state) => ours("POST", "auth/browser/oidc/poll", { state, client_nonce: "n" }, "");
  const { data } = await begin();
  await logInAtMock(data.auth_url, "bob");
  ok("direct: the page asks", (await page.title()) === "Confirm the login", await page.content());
  const text = await page.innerText("body");
  ok("direct: it names the role, the mount and who asked",
    text.includes("direct") && text.includes("auth/browser/") && text.includes("127.0.0.1"), text);
  const pending = (reply) => reply.status === 400 && reply.json.errors[0] === "authorization_pending";
  ok("direct: no token without the click", pending(await poll(data.state)));
  await page.reload();
  ok("direct: nor when the page is loaded again", pending(await poll(data.state)));
  ok("direct: which shows no second button", (await page.locator("button").count()) === 0);

  const second = (await begin()).data;
  await logInAtMock(second.auth_url, "bob");
  await page.click("button");
  await page.waitForLoadState("domcontentloaded");
  ok("direct: the click is confirmed", (await page.title()) === "Login confirmed", await page.content());
  const granted = await good(poll(second.state));
  ok("direct: and gives the token", granted.auth.client_token.length > 20);
  ok("direct: once", (await poll(second.state)).status === 400);
}

// Whatever comes as an error: no script runs, and nothing of it is on the page.
async function scripts(page, dialogs, callback) {
  const begun = await good(ours("POST", "auth/browser/oidc/auth_url",
    { role: "direct", redirect_uri: callback, client_nonce: "n" }, ""));
  const pages = [];
  for (const payload of PAYLOADS) {
    for (const state of [begun.data.state, payload]) {
      const query = new URLSearchParams({ state, code: payload, error: payload, error_description: payload, iss: payload });
      await page.goto(`${callback}?${query}`, { waitUntil: "load" });
      pages.push(await page.content());
      ok("no script of an error runs", (await page.evaluate(() => window.ran)) === undefined && dialogs.length === 0, payload);
    }
  }
  const told = PAYLOADS.filter((payload) => pages.some((text) => text.includes(payload)));
  ok("nothing of an error is on a page", told.length === 0, told.join("\n"));
}

// A provider that has the browser post what it says (OAuth 2.0 Form Post Response Mode): the mock cannot. Its page has a form, as theirs do.
function postingProvider() {
  const { privateKey, publicKey } = crypto.generateKeyPairSync("rsa", { modulusLength: 2048 });
  const b64 = (data) => Buffer.from(data).toString("base64url");
  const asked = new Map();
  const idToken = (query) => {
    const now = Math.floor(Date.now() / 1000);
    const header = b64(JSON.stringify({ alg: "RS256", kid: "k" }));
    const claims = { iss: provider.issuer, sub: "eve", aud: query.get("client_id"), exp: now + 60, iat: now, nonce: query.get("nonce") };
    const text = `${header}.${b64(JSON.stringify(claims))}`;
    return `${text}.${b64(crypto.sign("sha256", Buffer.from(text), privateKey))}`;
  };
  const escaped = (text) => text.replace(/[&<>"']/g, (c) => `&#${c.charCodeAt(0)};`);
  const provider = { said: {} };
  provider.server = http.createServer(async (request, response) => {
    const url = new URL(request.url, provider.issuer);
    const say = (kind, text) => { response.writeHead(200, { "Content-Type": kind }); response.end(text); };
    const json = (value) => say("application/json", JSON.stringify(value));
    if (url.pathname === "/.well-known/openid-configuration") {
      return json({ issuer: provider.issuer, jwks_uri: `${provider.issuer}/keys`, authorization_endpoint: `${provider.issuer}/authorize`,
        token_endpoint: `${provider.issuer}/token`, id_token_signing_alg_values_supported: ["RS256"], response_types_supported: ["code", "id_token"],
        response_modes_supported: ["form_post"], subject_types_supported: ["public"] });
    }
    if (url.pathname === "/keys") return json({ keys: [{ ...publicKey.export({ format: "jwk" }), kid: "k", alg: "RS256", use: "sig" }] });
    if (url.pathname === "/authorize") {
      const query = url.searchParams;
      ok("form_post: the provider is asked to have the browser post", query.get("response_mode") === "form_post", request.url);
      const code = crypto.randomUUID();
      asked.set(code, query);
      const fields = { state: query.get("state"), ...(query.get("response_type") === "code" ? { code } : { id_token: idToken(query) }), ...provider.said };
      const inputs = Object.entries(fields).map(([name, value]) => `<input type=hidden name="${name}" value="${escaped(value)}">`);
      return say("text/html", `<form method=post action="${escaped(query.get("redirect_uri"))}">${inputs.join("")}<button>Go on</button></form>`);
    }
    let body = "";
    for await (const part of request) body += part;
    const form = new URLSearchParams(body);
    const query = asked.get(form.get("code"));
    const verifier = form.get("code_verifier") || "";
    const proves = query && crypto.createHash("sha256").update(verifier).digest("base64url") === query.get("code_challenge");
    if (url.pathname === "/token" && proves) {
      asked.delete(form.get("code"));
      return json({ access_token: crypto.randomUUID(), token_type: "Bearer", id_token: idToken(query) });
    }
    response.writeHead(400, { "Content-Type": "application/json" });
    return response.end("{\"error\":\"invalid_grant\"}");
  });
  return new Promise((resolve) => provider.server.listen(0, "127.0.0.1", () => {
    provider.issuer = `http://127.0.0.1:${provider.server.address().port}`;
    resolve(provider);
  }));
}

// What a provider has the browser post: to the button by direct callback, else on to the page that began; a code or an ID token.
async function formPost(page, dialogs) {
  const provider = await postingProvider();
  const callback = `${VAULT_ADDR}/v1/auth/form/oidc/callback`;
  await good(ours("POST", "sys/auth/form", { type: "oidc" }));
  const roles = { direct: { callback_mode: "direct" }, page: {} };
  const configure = (types) => good(ours("POST", "auth/form/config", {
    oidc_discovery_url: provider.issuer, oidc_client_id: "kallisto", oidc_client_secret: "secret", oidc_response_mode: "form_post",
    ...(types && { oidc_response_types: types }),
  }));
  await configure();
  for (const [name, more] of Object.entries(roles)) {
    await good(ours("POST", `auth/form/role/${name}`, { user_claim: "sub", allowed_redirect_uris: [callback], ...more }));
  }
  // The page takes its query out of the address at once.
  const visited = [];
  page.on("framenavigated", (frame) => visited.push(frame.url()));
  const begin = async (role) => {
    visited.length = 0;
    const { data } = await good(ours("POST", "auth/form/oidc/auth_url", { role, redirect_uri: callback, client_nonce: "n" }, ""));
    await page.goto(data.auth_url, { waitUntil: "domcontentloaded" });
    await page.click("button");
    await page.waitForLoadState("domcontentloaded");
    return data;
  };
  const { state } = await begin("direct");
  ok("form_post: what was posted leads to the question", (await page.title()) === "Confirm the login", await page.content());
  await page.click("button");
  await page.waitForLoadState("domcontentloaded");
  const granted = await good(ours("POST", "auth/form/oidc/poll", { state, client_nonce: "n" }, ""));
  ok("form_post: the button gives the token", granted.auth.display_name === undefined && granted.auth.client_token.length > 20);

  for (const types of [undefined, ["id_token"]]) {
    const what = types ? "an ID token" : "a code";
    await configure(types);
    await begin("page");
    const at = await until("the page of the login", () => visited.map((url) => new URL(url)).find((url) => url.searchParams.get("code")));
    ok(`form_post: ${what} leads to the page that began the login`,
      at.pathname === "/ui/callback/form" && (at.searchParams.get("code") === "no_code") === Boolean(types), at.href);
    ok(`form_post: ${what} is not in the address`, !at.href.includes("id_token"), at.href);
    const query = (nonce) => new URLSearchParams({ code: at.searchParams.get("code"), state: at.searchParams.get("state"), client_nonce: nonce });
    ok(`form_post: ${what} is nothing without the nonce of the client`, (await ours("GET", `auth/form/oidc/callback?${query("x")}`, undefined, "")).status === 400);
    const login = await good(ours("GET", `auth/form/oidc/callback?${query("n")}`, undefined, ""));
    const seen = await good(ours("GET", "auth/token/lookup-self", undefined, login.auth.client_token));
    ok(`form_post: ${what} becomes a token of the user`, seen.data.display_name === "form-eve", JSON.stringify(seen.data));
    ok(`form_post: ${what} is good once`, (await ours("GET", `auth/form/oidc/callback?${query("n")}`, undefined, "")).status === 400);
  }
  await configure();
  for (const payload of PAYLOADS) {
    provider.said = { error: payload, error_description: payload };
    await begin("direct");
    const text = await page.content();
    ok("form_post: no script of an error runs, and nothing of it is on the page",
      (await page.evaluate(() => window.ran)) === undefined && dialogs.length === 0 && !text.includes(payload), payload);
  }
  provider.server.close();
}

// OpenBao is the provider. Its page needs its user's token, so what its page does is done by its API.
async function provider(page) {
  const port = await freePort();
  const address = `http://127.0.0.1:${port}`;
  start(BAO, ["server", "-dev", `-dev-listen-address=127.0.0.1:${port}`, "-dev-root-token-id=root"]);
  const bao = (method, where, body, token = "root") => good(api(address, token, method, where, body));
  await until("OpenBao", () => fetch(`${address}/v1/sys/health`).then((r) => r.ok, () => false));
  await bao("POST", "sys/auth/userpass", { type: "userpass" });
  await bao("PUT", "sys/policies/acl/op", { policy: "path \"identity/oidc/provider/default/authorize\" { capabilities = [\"read\", \"update\"] }" });
  await bao("POST", "auth/userpass/users/ann", { password: "pw", token_policies: "op" });
  const user = (await bao("POST", "auth/userpass/login/ann", { password: "pw" }, "")).auth;
  await bao("POST", `identity/entity/id/${user.entity_id}`, { name: "ann", metadata: { team: "red" } });
  await bao("POST", "identity/oidc/assignment/all", { entity_ids: [user.entity_id] });
  await bao("POST", "identity/oidc/scope/profile",
    { template: "{\"username\":{{identity.entity.name}},\"team\":{{identity.entity.metadata.team}}}" });
  await bao("POST", "identity/oidc/client/app",
    { redirect_uris: ["http://localhost:8250/oidc/callback"], assignments: ["all"] });
  await bao("POST", "identity/oidc/provider/default", { allowed_client_ids: ["*"], scopes_supported: ["profile"] });
  const client = (await bao("GET", "identity/oidc/client/app")).data;
  await good(ours("POST", "sys/auth/bao", { type: "oidc" }));
  await good(ours("POST", "auth/bao/config", {
    oidc_discovery_url: `${address}/v1/identity/oidc/provider/default`,
    oidc_client_id: client.client_id, oidc_client_secret: client.client_secret,
  }));
  for (const [name, team] of [["red", "r*"], ["blue", "blue"]]) {
    await good(ours("POST", `auth/bao/role/${name}`, {
      user_claim: "username", oidc_scopes: "profile", bound_claims_type: "glob", bound_claims: { team },
      claim_mappings: { team: "team" }, allowed_redirect_uris: "http://localhost:8250/oidc/callback",
    }));
  }
  for (const [name, passes] of [["red", true], ["blue", false]]) {
    const words = ["login", "-method=oidc", "-path=bao", "-format=json", `role=${name}`, "port=0", "skip_browser=true"];
    const child = start(KALLISTO, words, { VAULT_ADDR });
    const url = await until("an address", () => (child.said.match(/http:\/\/127\S+authorize\S+/) || [])[0]);
    const asked = new URL(url);
    const given = await bao("GET", `identity/oidc/provider/default/authorize${asked.search}`, undefined, user.client_token);
    const back = `${asked.searchParams.get("redirect_uri")}?${new URLSearchParams({ code: given.code, state: given.state })}`;
    await page.goto(back, { waitUntil: "domcontentloaded" });
    const code = await child.ended;
    ok(`OpenBao as the provider: role ${name}`, (code === 0) === passes, child.said);
    if (passes) ok("OpenBao as the provider: claims are mapped", child.said.includes("\"team\": \"red\""), child.said);
    else ok("OpenBao as the provider: the refusal says why", child.said.includes("bound claim values"), child.said);
  }
}

const limit = setTimeout(() => { console.log("FAIL took too long"); end(1); }, 240000);
function end(code) {
  clearTimeout(limit);
  for (const child of children) child.kill();
  fs.rmSync(home, { recursive: true, force: true });
  process.exit(code);
}
main().then(() => { console.log(`${checks} checks`); end(0); }, (error) => { console.log(String(error.stack || error)); end(1); });
