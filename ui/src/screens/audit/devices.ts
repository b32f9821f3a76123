// The audit devices, each with the head of its chain.
import { call, tryCall } from '../../lib/api.ts';

interface Head {
  seq: number;
  hash: string;
  health: string;
  chain: string;
  public_key?: string;
  error?: string | null;
}

export interface AuditDevice {
  name: string;
  type: string;
  file: string;
  head?: Head | undefined;
}

export async function devices(): Promise<AuditDevice[]> {
  const { data } = await call<Record<string, any>>('GET', 'sys/audit');
  return Promise.all(
    Object.entries(data).map(async ([path, one]): Promise<AuditDevice> => {
      const name = path.replace(/\/$/, '');
      const head = await tryCall<Head & Record<string, unknown>>('GET', `sys/audit-head/${name}`);
      return { name, type: one['type'], file: one['options']?.file_path ?? '', head: head?.data };
    }),
  );
}
