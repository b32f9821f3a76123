// Small assertions with words.
import assert from 'node:assert/strict';
export const equal = <T>(actual: T, expected: T, what: string): void => assert.deepEqual(actual, expected, what);
export const ok = (value: unknown, what: string): void => assert.ok(value, what);
/** Waits until `probe` holds. */
export async function until(probe: () => Promise<boolean> | boolean, what: string, ms = 8000): Promise<void> {
  const end = Date.now() + ms;
  while (!(await probe())) {
    if (Date.now() > end) throw new Error(`not within ${ms} ms: ${what}`);
    await new Promise((resolve) => setTimeout(resolve, 40));
  }
}
