// Builds the page into a folder: `node build.mjs OUT [--dev|--pseudo]`. Called by `cargo x ui`; `--pseudo` makes a page for a test, in a language that nobody speaks.
//
// OUT gets index.html, assets/NAME-DIGEST.* and, without --dev, a .br and a .gz beside each text file, and SOURCES. `cargo x ui` copies that into
// crates/ui/dist and writes the table. The same sources make the same bytes; packed files may differ between versions of zlib, so the check unpacks them.
import { createHash } from 'node:crypto';
import { mkdir, readFile, readdir, rm, writeFile } from 'node:fs/promises';
import { dirname, join, relative } from 'node:path';
import { brotliCompressSync, brotliDecompressSync, constants, gunzipSync, gzipSync } from 'node:zlib';
import { fileURLToPath } from 'node:url';
import esbuild from 'esbuild';

const here = dirname(fileURLToPath(import.meta.url));
const [out, ...flags] = process.argv.slice(2);
if (!out) throw new Error('usage: node build.mjs OUT [--dev|--watch|--unpack|--pseudo]');
const isPseudo = flags.includes('--pseudo');
const dev = isPseudo || flags.includes('--dev') || flags.includes('--watch');

/** Makes every text of `src/en/` longer by a third, with accents and brackets, so that a test sees texts that are not there, and what is too narrow. */
const pseudo = {
  name: 'pseudo-locale',
  setup: (build) => build.onLoad({ filter: /[/]src[/]en[/].*[.]ts$/ }, async ({ path }) => {
    const text = await readFile(path, 'utf8');
    const made = text.replace(/^export const (\w+) = (.*);$/gm, 'export const $1 = __pseudo($2);');
    const accents = 'aàeéiîoöuüAÀEÉIÎOÖUÜcçCÇnñNÑyý';
    const helper = `const __accents = new Map(${JSON.stringify([...accents.matchAll(/(.)(.)/gu)].map(([, from, to]) => [from, to]))});\nconst __text = (text) => '\u27e6' + [...text].map((one) => __accents.get(one) ?? one).join('') + '~'.repeat(Math.ceil(text.length / 3)) + '\u27e7';\nconst __pseudo = (it) => typeof it === 'function' ? (...given) => __text(it(...given)) : __text(it);\n`;
    return { contents: helper + made, loader: 'ts' };
  }),
};

const OUTSIDE = ['setup', 'open', 'callback', 'second-factor'];
/** Adds the import of what is shared to each part that is loaded later: `src/core.ts` says why. */
const shared = {
  name: 'shared',
  setup: (build) => build.onLoad({ filter: /[/]src[/](screens|parts)[/].*[.]tsx$/ }, async ({ path }) => {
    const name = relative(join(here, 'src'), path).replaceAll('\\', '/');
    if (!later.has(name)) return undefined;
    const core = OUTSIDE.some((one) => name.endsWith(`/${one}.tsx`)) ? 'core' : 'inside';
    return { contents: `${await readFile(path, 'utf8')}\nimport ${JSON.stringify(join(here, `src/${core}.ts`))};\n`, loader: 'tsx' };
  }),
};
/** Files of the sources that are imported when they are needed. */
const later = new Set();
for (const path of await files(join(here, 'src'))) {
  if (!/[.]tsx?$/.test(path)) continue;
  for (const [, name] of (await readFile(path, 'utf8')).matchAll(/\bimport\('([.][^']+[.]tsx)'\)/g)) later.add(relative(join(here, 'src'), join(dirname(path), name)).replaceAll('\\', '/'));
}

const options = {
  absWorkingDir: here,
  entryPoints: { app: 'src/main.tsx', style: 'src/style/index.css' },
  bundle: true,
  splitting: true,
  format: 'esm',
  target: ['es2022'],
  minify: !dev,
  sourcemap: dev ? 'inline' : false,
  legalComments: 'none',
  charset: 'utf8',
  outdir: join(out, 'assets'),
  entryNames: '[name]-[hash]',
  chunkNames: '[name]-[hash]',
  assetNames: '[name]-[hash]',
  publicPath: '/ui/assets',
  loader: { '.woff2': 'file', '.svg': 'file' },
  jsx: 'automatic',
  jsxImportSource: 'preact',
  metafile: true,
  define: { __DEV__: String(dev) },
  plugins: isPseudo ? [shared, pseudo] : [shared],
  logLevel: 'warning',
};
/** Workers share nothing with the page: what they would share would be cut into more files. */
const workers = { ...options, entryPoints: { 'import-worker': 'src/workers/import.ts', 'audit-worker': 'src/workers/audit.ts' }, splitting: false };

/** Every file below `folder`, sorted. */
async function files(folder) {
  const found = [];
  for (const entry of await readdir(folder, { withFileTypes: true })) {
    const path = join(folder, entry.name);
    if (entry.isDirectory()) found.push(...(await files(path)));
    else found.push(path);
  }
  return found.sort();
}

/** The shell. Workers are named in meta tags, since only these two may be started. */
function shell(metafile, mark) {
  const made = Object.entries(metafile.outputs);
  const of = (entry) => '/ui/assets/' + made.find(([, output]) => output.entryPoint === entry)[0].split('/').pop();
  // What the page's own file begins with is asked for together with it, not after it.
  const begun = (entry) => made.find(([, output]) => output.entryPoint === entry)[1].imports.filter(({ kind }) => kind === 'import-statement').map(({ path }) => `/ui/assets/${path.split('/').pop()}`).sort();
  const begins = begun('src/main.tsx');
  const inside = begun('src/inside.ts').filter((path) => !begins.includes(path));
  if (inside.length !== 1) throw new Error(`what all screens share is ${inside.length} files, not one`);
  const font = made.map(([path]) => path).find((path) => path.endsWith('.woff2'));
  return `<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<meta name="description" content="Kallisto's web interface">
<meta name="inside" content="${inside[0]}">
<meta name="import-worker" content="${of('src/workers/import.ts')}">
<meta name="audit-worker" content="${of('src/workers/audit.ts')}">
<title>Kallisto</title>
<link rel="icon" href="/ui/icon.svg" type="image/svg+xml">
<link rel="stylesheet" href="${of('src/style/index.css')}">
${font ? `<link rel="preload" href="/ui/assets/${font.split('/').pop()}" as="font" type="font/woff2" crossorigin>\n` : ''}${begins.map((path) => `<link rel="modulepreload" href="${path}">\n`).join('')}<script type="module" src="${of('src/main.tsx')}"></script>
</head>
<body><div id="app"><div class="splash">${mark}</div></div><noscript>Kallisto's web interface needs JavaScript. The command line and the API do not.</noscript></body>
</html>
`;
}

async function finish(...results) {
  const mark = await readFile(join(here, 'src/icon.svg'), 'utf8');
  await writeFile(join(out, 'index.html'), shell({ outputs: Object.assign({}, ...results.map(({ metafile }) => metafile.outputs)) }, mark.trim()));
  await writeFile(join(out, 'icon.svg'), mark);
  if (dev) return;
  for (const path of await files(out)) {
    if (!/\.(js|css|svg|html)$/.test(path)) continue;
    const plain = await readFile(path);
    const gzip = gzipSync(plain, { level: 9 });
    const brotli = brotliCompressSync(plain, { params: { [constants.BROTLI_PARAM_QUALITY]: 11, [constants.BROTLI_PARAM_SIZE_HINT]: plain.length } });
    if (gzip.length < plain.length) await writeFile(path + '.gz', gzip);
    if (brotli.length < plain.length) await writeFile(path + '.br', brotli);
  }
  const hash = (bytes) => createHash('sha256').update(bytes).digest('hex');
  const kinds = { html: 'text/html; charset=utf-8', js: 'text/javascript; charset=utf-8', css: 'text/css; charset=utf-8', svg: 'image/svg+xml', woff2: 'font/woff2' };
  const all = await files(out);
  const rows = [];
  for (const path of all) {
    const name = relative(out, path).replaceAll('\\', '/');
    const kind = kinds[name.split('.').pop()];
    if (!kind) continue;
    const packed = (ending) => (all.includes(path + ending) ? `Some(include_bytes!("../dist/${name}${ending}"))` : 'None');
    rows.push(`    PageRow {
        path: "${name}",
        content_type: "${kind}",
        plain: include_bytes!("../dist/${name}"),
        gzip: ${packed('.gz')},
        brotli: ${packed('.br')},
        digest: "${hash(await readFile(path))}",
    },
`);
  }
  await writeFile(join(out, 'table.rs'), `//! Every file of the built page. Written by \`cargo x ui\`; do not edit.
//!
//! [\`super::asset\`] looks a path up here. Each row includes a file of \`dist/\` as bytes,
//! and its packed forms where they are smaller; the digest is the SHA-256 of the plain bytes.
//! Rows are sorted by path, so the same sources write the same table.

use super::PageRow;

pub(super) static ROWS: &[PageRow] = &[
${rows.join('')}];
`);
}

if (flags.includes('--unpack')) {
  for (const path of await files(out)) {
    const unpack = path.endsWith('.gz') ? gunzipSync : path.endsWith('.br') ? brotliDecompressSync : undefined;
    if (unpack && !unpack(await readFile(path)).equals(await readFile(path.slice(0, -3)))) throw new Error(`${path} does not unpack to its file`);
  }
  process.exit(0);
}
await rm(out, { recursive: true, force: true });
await mkdir(out, { recursive: true });
if (flags.includes('--watch')) {
  const worked = await esbuild.build(workers);
  const context = await esbuild.context({ ...options, plugins: [shared, { name: 'shell', setup: (build) => build.onEnd((result) => result.metafile && finish(result, worked)) }] });
  await context.watch();
  console.log(`watching; run a debug server with KALLISTO_UI_DIR=${out}`);
} else {
  await finish(await esbuild.build(options), await esbuild.build(workers));
}
