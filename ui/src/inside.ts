// What every screen of somebody signed in is made of, as one file: `core.ts` says why.
import './core.ts';
import './lib/diff.ts';
import './lib/formats.ts';
import './lib/reveal.ts';
import './lib/search.ts';
import './lib/shares.ts';
import './lib/workers.ts';
import './parts/code-area.tsx';
import './parts/list.tsx';
import './parts/qr.tsx';
import './screens/review-list.tsx';
import './screens/secrets/due.tsx';
export { Frame } from './parts/frame.tsx';
export { startKeys } from './parts/keys.tsx';
