// What needs no browser: JSON that keeps numbers, file formats, differences and the merge of three.
import { encodePath, secondsToWait } from '../src/lib/api.ts';
import { diffData, lineDiff, parts } from '../src/lib/diff.ts';
import { guess, parseCsv, parseEnv, parseJsonText, write, type Entry } from '../src/lib/formats.ts';
import { kindOf } from '../src/lib/kinds.ts';
import { Num, parseJson, writeJson, type Data } from '../src/lib/json.ts';
import { pathFault } from '../src/lib/paths.ts';
import { parseProm } from '../src/lib/prom.ts';
import { parseQuery } from '../src/lib/search.ts';
import { bytes, named, span, visible } from '../src/lib/time.ts';
import { mergeThree } from '../src/screens/secrets/merge.ts';
import { warningOf } from '../src/screens/secrets/keys.ts';
import { equal, ok } from './assert.ts';
import type { Flow } from './flows/index.ts';

const refuses = (text: string): boolean => { try { parseJson(text); return false; } catch { return true; } };

export const units: Flow[] = [
  { name: 'unit: a wait is told in seconds or as a time', run: async () => {
    const now = Date.parse('2026-11-29T06:00:00Z');
    for (const [header, seconds] of [['3', 3], ['Sun, 29 Nov 2026 06:00:08 GMT', 8], ['Sun, 29 Nov 2026 05:59:00 GMT', 0], ['0', 0], ['-1', 0], ['soon', 0], ['', 0], [null, 0]] as const) equal(secondsToWait(header, now), seconds, String(header));
  } },
  { name: 'unit: numbers stay as they were written', run: async () => {
    const text = '{ "a": 1.0, "b": 123456789012345678901234567890, "c": [1e400, -0, true, null, "x\\u00e9"] }';
    equal(writeJson(parseJson(text)), '{ "a": 1.0, "b": 123456789012345678901234567890, "c": [1e400, -0, true, null, "xé"] }', 'round trip');
    ok(parseJson('1.50') instanceof Num, 'a number is kept as text');
    for (const wrong of ['', '{', '01', '[1,]', '{"a":1,}', "'a'", '"\u0001"', '1 2', '{"a" 1}', 'NaN', '['.repeat(1000)]) ok(refuses(wrong), `refuses ${wrong.slice(0, 20)}`);
    const twice: string[] = [];
    parseJson('{"a":1,"a":2}', (key) => twice.push(key));
    equal(twice, ['a'], 'keys that stand twice are told');
    equal(Object.keys(parseJson('{"__proto__":1}') as object), ['__proto__'], 'a key named __proto__ is a key');
  } },
  { name: 'unit: .env is read and written back the same', run: async () => {
    const { entries, problems } = parseEnv('# note\nexport A=1\nB="two words" # after\nC=\'single $x\'\nD="line\\nnext"\nE="over\ntwo lines"\nF=\nA=3\nnot a pair\n');
    equal(entries[0]?.data as unknown, { A: '3', B: 'two words', C: 'single $x', D: 'line\nnext', E: 'over\ntwo lines', F: '' } as unknown, 'values');
    equal(problems.map((one) => one.line), [9, 10], 'lines of what is wrong');
    const data: Data = { A: 'plain', B: 'with "quotes" and $', C: 'two\nlines\t', D: '' };
    equal(parseEnv(write('env', [{ path: '', data }])).entries[0]?.data as unknown, data as unknown, 'round trip');
  } },
  { name: 'unit: CSV and JSON make trees of secrets', run: async () => {
    const made = parseCsv('path,key,value\na/b,K,"x, ""y"""\na/b,L,2\nc,K,\n');
    equal(made.entries.map((one) => [one.path, one.data]), [['a/b', { K: 'x, "y"', L: '2' }], ['c', { K: '' }]], 'CSV');
    const many: Entry[] = [{ path: 'a', data: { k: 'v,"' } }, { path: 'b/c', data: { k: new Num('1.0') } }];
    equal(parseCsv(write('csv', many)).entries.map((one) => one.path), ['a', 'b/c'], 'round trip of CSV');
    equal(parseJsonText(write('json', many)).entries.map((one) => one.path), ['a', 'b/c'], 'round trip of JSON');
    const secret = parseJsonText('{"kind":"Secret","data":{"a":"aMOp"},"stringData":{"b":"x"}}');
    equal(secret.entries[0]?.data as unknown, { a: 'hé', b: 'x' } as unknown, 'Kubernetes');
    equal([guess('A=1'), guess('{"a":1}'), guess('path,key,value\n'), guess('a: 1'), guess('apiVersion: v1\nkind: Secret\n')], ['env', 'json', 'csv', 'yaml', 'k8s'], 'guesses');
  } },
  { name: 'unit: differences of keys and inside values', run: async () => {
    const rows = diffData({ a: '1', b: new Num('1.0'), c: 'x' }, { a: '2', b: new Num('1.0'), d: 'y' });
    equal(rows.map((row) => [row.key, row.change]), [['a', 'changed'], ['d', 'added'], ['c', 'removed'], ['b', 'same']], 'rows');
    equal(diffData({ a: new Num('1') }, { a: new Num('1.0') })[0]?.change, 'changed', 'a number is its text');
    const [old, now] = parts('whsec_old tail', 'whsec_new tail');
    equal([old, now].map((side) => side.map((part) => part.text).join('')), ['whsec_old tail', 'whsec_new tail'], 'nothing is lost');
    equal(lineDiff('a\nb\nc', 'a\nx\nc').map((line) => line.mark).join(''), ' -+ ', 'lines');
  } },
  { name: 'unit: three sides are merged, clashes asked', run: async () => {
    const made = mergeThree({ a: '1', b: '1', c: '1', d: '1' }, { a: '2', b: '1', c: '2' , d: '1' }, { a: '1', b: '3', c: '3' });
    equal(made.merged as unknown, { a: '2', b: '3' } as unknown, 'only one side touched these');
    equal(made.clashes.map((clash) => clash.key), ['c'], 'both touched these');
    equal(made.fromThem, ['a'], 'taken over');
  } },
  { name: 'unit: kinds of values are told, also of tokens that end at no time of a calendar', run: async () => {
    const part = (claims: object): string => Buffer.from(JSON.stringify(claims)).toString('base64url');
    const token = (exp: unknown): string => `${part({ alg: 'HS256', typ: 'JWT' })}.${part({ exp })}.x`;
    ok(kindOf(token(4_102_444_800))?.label.includes('2100-01-01'), 'the end is told');
    for (const exp of [1e15, -1e15, 1e300, '2100', null]) ok(kindOf(token(exp))?.label.startsWith('JWT'), `no end for ${exp}`);
    equal([kindOf(parseJson('{"a":1}'))?.label, kindOf(parseJson('{"a":1,"b":2}'))?.label], ['1 key inside', '2 keys inside'], 'one and two');
  } },
  { name: 'unit: a path that the browser would make another one of has no address, and others are refused in the words of the server', run: async () => {
    const refused = (path: string): string => { try { encodePath(path); return ''; } catch (error) { return (error as Error).message; } };
    const dots = "path has a '.' or '..' segment";
    for (const path of ['.', '..', 'a/..', '../a', 'a/./b', 'a/../b', 'a/../', '../../mounts']) equal([refused(path), pathFault(path)], [dots, dots], path);
    for (const path of ['\ud800', 'a/\udc00b']) equal(refused(path), 'path is not valid UTF-8', 'half a character');
    for (const [path, encoded] of [['.env', '.env'], ['..a/b..', '..a/b..'], ['...', '...'], ['a/%2e%2e/b', 'a/%252e%252e/b'], ['a b/\u{1f511}', 'a%20b/%F0%9F%94%91'], ['a/', 'a/'], ['', '']] as const) equal([encodePath(path), pathFault(path)], [encoded, undefined], path);
    for (const path of ['\0', 'a\tb', 'a\u007f', 'a\u0085b']) equal(pathFault(path), 'path has a control character', JSON.stringify(path));
    equal(pathFault('a\\b'), 'path has a backslash', 'backslash');
    for (const path of ['/a', 'a//b', 'a//', '/']) equal(pathFault(path), 'path has an empty segment', path);
    equal([pathFault('\u00e9'.repeat(512)), pathFault('\u00e9'.repeat(512) + 'a')], [undefined, 'path is longer than 1024 bytes'], 'bytes count');
    equal([pathFault('a/'.repeat(32)), pathFault('a/'.repeat(32) + 'a')], [undefined, 'path has more than 32 segments'], 'depth');
  } },
  { name: 'unit: words of search, sizes, and names that hide something', run: async () => {
    equal(parseQuery('str owner:ada in:kv/apps/ key:DB_URL due:<30d') as unknown, { name: 'str', within: 'kv/apps/', metadata: 'owner=ada', key: 'DB_URL', due: '30d' } as unknown, 'search');
    equal([span(3840), span(59), bytes(1_500_000)], ['1 h 4 min', '59 s', '1.5 MB'], 'sizes');
    equal(visible('a\u202eb'), 'a\u2039U+202E\u203ab', 'bidi characters are shown');
    equal([visible('a\u061cb'), visible('a\u2028b'), visible('a\u00adb')], ['a\u2039U+061C\u203ab', 'a\u2039U+2028\u203ab', 'a\u2039U+00AD\u203ab'], 'others that cannot be seen');
    equal([named('a '), named('  a'), named('a b')], ['a\u2420', '\u2420\u2420a', 'a b'], 'blanks at the ends of a name');
    equal([warningOf('A '), warningOf('p\u0430ss'), warningOf('PASS')].map(Boolean), [true, true, false], 'look-alikes');
    equal(parseProm('# x\na_total{b="c"} 3\na_total 4\nbad\n').get('a_total')?.size, 2, 'metrics');
  } },
];
