// Runs the flows: `node test/run.mjs CHROMIUM [FLOW...]`. The tests are TypeScript; esbuild makes one file of them first.
import { mkdir } from 'node:fs/promises';
import esbuild from 'esbuild';

const out = 'node_modules/.kallisto-test/flows.mjs';
await mkdir('node_modules/.kallisto-test', { recursive: true });
await esbuild.build({ entryPoints: ['test/flows/index.ts'], outfile: out, bundle: true, platform: 'node', format: 'esm', target: 'node20', packages: 'external', jsx: 'automatic', jsxImportSource: 'preact', logLevel: 'warning', define: { __DEV__: 'false' } });
const { run } = await import(new URL(`../${out}`, import.meta.url));
process.exit(await run(process.argv[2], process.argv.slice(3)));
