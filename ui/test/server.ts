// Real servers for the tests: the debug binary on a free port, in memory or on disk, stopped by its own process id.
import { type ChildProcess, spawn } from 'node:child_process';
import { appendFileSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { createServer } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

export const BINARY = process.env['KALLISTO_BINARY'] ?? join(process.env['CARGO_TARGET_DIR'] ?? '../target', 'debug/kallisto');
const READY_MS = 20_000;
const JOIN_MS = 60_000;

const unused = (): Promise<number> => new Promise((resolve, reject) => {
  const probe = createServer();
  probe.once('error', reject);
  probe.listen(0, '127.0.0.1', () => { const address = probe.address(); probe.close(() => resolve(typeof address === 'object' && address ? address.port : 0)); });
});
const given = new Set<number>();

/** A port that nobody has; none is given twice, as the system may. */
export const freePort = async (): Promise<number> => {
  for (;;) {
    const port = await unused();
    if (given.has(port)) continue;
    given.add(port);
    return port;
  }
};

export class Server {
  token = 'root';
  share = '';
  private constructor(readonly base: string, readonly child: ChildProcess, readonly folder: string) {}

  static async start(args: string[], port: number, folder: string, page = process.env['KALLISTO_UI_DIR'] ?? ''): Promise<Server> {
    const child = spawn(BINARY, ['server', ...args], { stdio: ['ignore', 'ignore', 'pipe'], env: { PATH: process.env['PATH'] ?? '', HOME: folder, ...(page ? { KALLISTO_UI_DIR: page } : {}) } });
    let log = '';
    child.stderr?.on('data', (chunk: Buffer) => { log = (log + chunk.toString()).slice(-4000); if (process.env['KALLISTO_TEST_LOG']) appendFileSync(process.env['KALLISTO_TEST_LOG'], chunk); });
    const server = new Server(`http://127.0.0.1:${port}`, child, folder);
    const end = Date.now() + READY_MS;
    for (;;) {
      try { await fetch(`${server.base}/v1/sys/seal-status`); if (child.exitCode === null) return server; } catch { /* Not yet. */ }
      if (child.exitCode !== null || Date.now() > end) throw new Error(`the server did not start: ${log}`);
      await new Promise((resolve) => setTimeout(resolve, 50));
    }
  }

  /** In memory, unsealed, root token `root`; with the page of a folder, if one is named. */
  static async dev(page?: string): Promise<Server> {
    const port = await freePort();
    const folder = mkdtempSync(join(tmpdir(), 'kallisto-ui-'));
    const server = await Server.start(['-dev', '-dev-root-token-id=root', `-dev-listen-address=127.0.0.1:${port}`, '-dev-no-store-token'], port, folder, page);
    // It answers before it has unsealed itself, which takes a while on a machine that has much to do.
    const end = Date.now() + READY_MS;
    while ((await server.api('GET', 'sys/seal-status', undefined, ''))['sealed'] !== false) {
      if (Date.now() > end) throw new Error('the server stays sealed');
      await new Promise((resolve) => setTimeout(resolve, 50));
    }
    return server;
  }

  /** On disk, never initialised. */
  static async durable(): Promise<Server> {
    const [port, peers] = [await freePort(), await freePort()];
    const folder = mkdtempSync(join(tmpdir(), 'kallisto-ui-'));
    writeFileSync(join(folder, 'server.hcl'), `ui = true\naudit_directories = ["${folder}"]\nstorage "raft" {\n  path = "${folder}/data"\n  node_id = "one"\n}\nlistener "tcp" {\n  address = "127.0.0.1:${port}"\n  cluster_address = "127.0.0.1:${peers}"\n  tls_disable = true\n}\napi_addr = "http://127.0.0.1:${port}"\ncluster_addr = "https://127.0.0.1:${peers}"\n`);
    return Server.start([`-config=${folder}/server.hcl`], port, folder);
  }

  /** Three servers of one cluster, unsealed by one share, the root token in `token` of each. */
  static async cluster(): Promise<Server[]> {
    const ports = await Promise.all(Array.from({ length: 6 }, () => freePort()));
    const servers: Server[] = [];
    for (let i = 0; i < 3; i += 1) {
      const [port, peers] = [ports[i * 2] ?? 0, ports[i * 2 + 1] ?? 0];
      const folder = mkdtempSync(join(tmpdir(), 'kallisto-ui-'));
      const joins = i > 0 ? `  retry_join {\n    leader_api_addr = "${servers[0]?.base}"\n  }\n` : '';
      writeFileSync(join(folder, 'server.hcl'), `ui = true\nstorage "raft" {\n  path = "${folder}/data"\n  node_id = "kallisto-${i + 1}"\n${joins}}\nlistener "tcp" {\n  address = "127.0.0.1:${port}"\n  cluster_address = "127.0.0.1:${peers}"\n  tls_disable = true\n}\napi_addr = "http://127.0.0.1:${port}"\ncluster_addr = "https://127.0.0.1:${peers}"\n`);
      servers.push(await Server.start([`-config=${folder}/server.hcl`], port, folder));
      if (i > 0) continue;
      const made = await servers[0]?.must('PUT', 'sys/init', { secret_shares: 1, secret_threshold: 1 }, '');
      for (const server of servers) { server.token = made?.['root_token'] as string; server.share = (made?.['keys_base64'] as string[])[0] ?? ''; }
      await servers[0]?.must('PUT', 'sys/unseal', { key: servers[0].share }, '');
    }
    const first = servers[0] as Server;
    for (const server of servers) {
      server.token = first.token;
      const end = Date.now() + JOIN_MS;
      for (;;) {
        const status = await server.api('PUT', 'sys/unseal', { key: first.share }, '');
        if (status['sealed'] === false || (await server.api('GET', 'sys/seal-status', undefined, ''))['sealed'] === false) break;
        if (Date.now() > end) throw new Error(`a server does not join: ${JSON.stringify(status)}`);
        await new Promise((resolve) => setTimeout(resolve, 1000));
      }
    }
    return servers;
  }

  async api(method: string, path: string, body?: unknown, token = this.token, ns = ''): Promise<Record<string, any>> {
    const response = await fetch(`${this.base}/v1/${path}`, { method, headers: { ...(token ? { 'X-Vault-Token': token } : {}), ...(ns ? { 'X-Vault-Namespace': ns } : {}) }, ...(body === undefined ? {} : { body: typeof body === 'string' ? body : JSON.stringify(body) }) });
    const text = await response.text();
    return { status: response.status, ...(text ? (JSON.parse(text) as object) : {}) };
  }

  async must(method: string, path: string, body?: unknown, token = this.token, ns = ''): Promise<Record<string, any>> {
    const reply = await this.api(method, path, body, token, ns);
    if (reply['status'] >= 300) throw new Error(`${method} ${path}: ${JSON.stringify(reply)}`);
    return reply;
  }

  stop(): void {
    this.child.kill('SIGKILL');
    rmSync(this.folder, { recursive: true, force: true });
  }
}
