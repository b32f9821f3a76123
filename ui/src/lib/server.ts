// What the server says about itself: seal status, health, and the page's settings.
import { tryCall } from './api.ts';
import { server, uiConfig, type Server, type UiConfig } from './state.ts';

/** Asks for the seal status; the answer is in `server`. */
export async function askServer(): Promise<Server> {
  const reply = await tryCall<Record<string, any>>('GET', 'sys/seal-status', { token: '', ns: '' });
  const status = (reply?.body ?? {}) as Record<string, any>;
  server.value = reply
    ? {
        version: status['version'] ?? '',
        sealed: Boolean(status['sealed']),
        standby: false,
        initialized: Boolean(status['initialized']),
        name: status['cluster_name'] ?? '',
        ok: true,
        threshold: status['t'],
        shares: status['n'],
        progress: status['progress'],
        type: status['type'],
        nonce: status['nonce'],
        recovery: Boolean(status['recovery_seal']),
      }
    : { ...server.peek(), ok: false };
  return server.value;
}

/** Reads the operator's settings for the page (contract E2); without them the built-in ones hold. */
export async function askConfig(): Promise<void> {
  const reply = await tryCall<Partial<UiConfig>>('GET', 'sys/internal/ui/config', {
    token: '',
    ns: '',
  });
  if (reply) {
    const given = Object.fromEntries(
      Object.entries(reply.data).filter(([, value]) => value !== null && value !== undefined),
    );
    uiConfig.value = { ...uiConfig.peek(), ...given };
  }
}
