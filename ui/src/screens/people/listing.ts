// Lists of the API with what it says of each key; none is an empty list.
import { call } from '../../lib/api.ts';

/** Most rows of a list that are shown at once. */
export const ROWS_MAX = 500;

export type Info = Record<string, Record<string, any>>;
export async function listing(path: string): Promise<{ keys: string[]; info: Info }> {
  const reply = await call<{ keys?: string[]; key_info?: Info }>('LIST', path).catch(
    (error: { status?: number }) => {
      if (error.status === 404) return undefined;
      throw error;
    },
  );
  return { keys: reply?.data.keys ?? [], info: reply?.data.key_info ?? {} };
}
