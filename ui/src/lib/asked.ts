// The requests that the screen in view has made, so that it can be told how to make them elsewhere. Names of fields at most: no value, no token.
import { effect } from '@preact/signals';
import { route } from './router.ts';

export interface Asked {
  method: string;
  path: string;
  query: [string, string][];
  fields: string[];
  ns: string;
}
const ASKED_MAX = 30;
let list: Asked[] = [];

/** Notes a request; one that is made again stands once. */
export function noteAsked(one: Asked): void {
  const same = (other: Asked): boolean =>
    other.method === one.method &&
    other.path === one.path &&
    JSON.stringify(other.query) === JSON.stringify(one.query);
  list = [...list.filter((other) => !same(other)), one].slice(-ASKED_MAX);
}
export const asked = (): readonly Asked[] => list;

let last = '';
effect(() => {
  const now = route.value.path;
  if (now !== last) {
    last = now;
    list = [];
  }
});
