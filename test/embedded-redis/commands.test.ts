/**
 * Compares the commands that the product sends with those of the embedded Redis. They are computed from the source, so a
 * command that no test runs is compared too.
 */
import assert from 'node:assert/strict';
import { once } from 'node:events';
import { readdirSync, readFileSync } from 'node:fs';
import { type AddressInfo, createServer } from 'node:net';
import { join } from 'node:path';
import { test } from 'node:test';
import { fileURLToPath } from 'node:url';
import { parseSync } from '@swc/core';
import { Redis } from 'ioredis';
import { CommandReader } from '../../embedded-redis/command-reader.ts';
import { RedisConnection } from '../../lib/redis/connection.ts';
import { redisUrl } from '../support/redis.ts';

const ROOT = fileURLToPath(new URL('../../', import.meta.url));
const KNOWN = new Set(new Redis({ lazyConnect: true }).getBuiltinCommands());
/** Folders that a single machine loads. A Redis in cluster mode is never the embedded one. */
const FOLDERS = ['lib', 'functions', 'sdk', 'local', 'cli', 'console', 'examples'];
const CLUSTER = 'lib/redis/cluster/';
/** Commands whose first argument is a part of their name. */
const CONTAINERS = new Set(
  'acl client cluster command config debug function latency memory module object pubsub script slowlog xgroup xinfo'.split(
    ' ',
  ),
);
/** Names that methods of other objects have too: they are commands only if a client of Redis is asked. */
const OTHERS = new Set(['digest', 'move', 'save', 'sort', 'wait']);
/** How ioredis sends the scripts that the product defines. */
const SCRIPTS = ['eval', 'evalsha'];
/** The first argument of a call in Lua that is not a literal, with what it holds. */
const COMPUTED_LUA: Readonly<Record<string, string>> = { 'unpack(fields, 1, count': 'HSET' };
const PYTHON: Readonly<Record<string, string>> = { delete: 'del', scan_iter: 'scan' };
/** Methods of others in Python's files. */
const PYTHON_OTHERS = new Set(['append', 'get', 'keys', 'reset', 'set']);

type Tree = Readonly<Record<string, unknown>> & { readonly type?: string };

function sources(folder: string, ending: RegExp): { readonly path: string; readonly text: string }[] {
  return readdirSync(join(ROOT, folder), { recursive: true, encoding: 'utf8' })
    .filter((name) => ending.test(name) && !name.includes('node_modules'))
    .map((name) => ({ path: join(folder, name), text: readFileSync(join(ROOT, folder, name), 'utf8') }))
    .filter(({ path, text }) => /redis/i.test(text) && !path.startsWith(CLUSTER));
}

/** Each call of a method that has the name of a command, on any object. */
function calls(path: string, text: string): string[] {
  const found: string[] = [];
  const visit = (tree: unknown): void => {
    if (Array.isArray(tree)) return tree.forEach(visit);
    if (typeof tree !== 'object' || tree === null) return;
    const node = tree as Tree;
    if (node.type === 'CallExpression') found.push(...commandOf(node, path));
    for (const key in node) if (key !== 'span') visit(node[key]);
  };
  visit(parseSync(text, { syntax: 'typescript', tsx: path.endsWith('x'), target: 'es2024' }).body);
  return found;
}

function commandOf(call: Tree, path: string): string[] {
  const { type, property, object } = call['callee'] as Tree & { property?: { value?: string } };
  if (type !== 'MemberExpression') return [];
  const isClient = rootOf(object) === 'redis';
  if (property?.value === undefined) {
    assert.ok(!isClient, `${path}: a command whose name is computed cannot be compared`);
    return [];
  }
  const [first] = call['arguments'] as { expression: Tree }[];
  const word = first?.expression.type === 'StringLiteral' ? String(first.expression['value']) : undefined;
  const name = property.value.replace(/Buffer$/, '').toLowerCase();
  if (name === 'call') {
    assert.ok(
      word !== undefined || !isClient,
      `${path}: a command whose name is computed cannot be compared`,
    );
    return word !== undefined && KNOWN.has(word.toLowerCase()) ? [word.toLowerCase()] : [];
  }
  if (!KNOWN.has(name) || (OTHERS.has(name) && !isClient)) return [];
  return [CONTAINERS.has(name) && word !== undefined ? `${name} ${word.toLowerCase()}` : name];
}

/** The name of what a chain of calls begins with: `redis` of `this.redis.multi().get(key)`. */
function rootOf(object: unknown): string | undefined {
  const node = object as Tree;
  if (node?.type === 'Identifier') return String(node['value']).replace(/^#/, '');
  if (node?.type === 'CallExpression') return rootOf(node['callee']);
  if (node?.type !== 'MemberExpression') return undefined;
  const own = rootOf(node['property']);
  return own === 'redis' ? own : rootOf(node['object']);
}

/** The commands of scripts. */
function luaCalls(path: string, text: string): string[] {
  return [...text.matchAll(/(?<![\w.#])(?:redis\.)?p?call\(([^)]*)/g)].flatMap(([whole, inside = '']) => {
    const literal = /^\s*'([A-Z]+)'/.exec(inside)?.[1] ?? COMPUTED_LUA[inside];
    // ioredis's own `call` is found above.
    if (literal === undefined && /^(?:redis\.)?call\(\s*$/.test(whole)) return [];
    assert.ok(literal, `${path}: a command of Lua whose name is computed cannot be compared: ${whole}`);
    return [literal.toLowerCase()];
  });
}

function pythonCalls(text: string): string[] {
  const names = [...text.matchAll(/\.([a-z_]+)\(/g)].map(([, name = '']) => name);
  return names.flatMap((name) => {
    const command = PYTHON[name] ?? name.replace('_', ' ');
    return KNOWN.has(command.split(' ')[0] ?? '') && !PYTHON_OTHERS.has(name) ? [command] : [];
  });
}

/** Commands that ioredis sends by itself, as the product configures it. */
async function ownCalls(): Promise<string[]> {
  const seen: string[] = [];
  const server = createServer((socket) => {
    const reader = new CommandReader();
    socket.on('error', () => undefined);
    socket.on('data', (piece) => {
      reader.push(piece);
      for (let args = reader.next(); args; args = reader.next()) {
        const [name = '', word = ''] = args.map((text) => text.toLowerCase());
        seen.push(CONTAINERS.has(name) ? `${name} ${word}` : name);
        socket.write('+OK\r\n');
      }
    });
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  const connection = new RedisConnection(`redis://127.0.0.1:${(server.address() as AddressInfo).port}`);
  await connection.use((redis) => redis.ping(), true);
  await connection.close();
  server.close();
  return seen;
}

test('the embedded Redis has every command that the product sends', async (t) => {
  const code = FOLDERS.flatMap((folder) => sources(folder, /\.tsx?$/));
  const inCode = code.flatMap(({ path, text }) => calls(path, text));
  const inLua = code.flatMap(({ path, text }) => luaCalls(path, text));
  const inPython = sources('python', /\.py$/).flatMap(({ text }) => pythonCalls(text));
  const sent = [...new Set([...inCode, ...inLua, ...inPython, ...(await ownCalls()), ...SCRIPTS])].sort();
  // One of each kind, so that a search that finds nothing does not pass.
  for (const one of [
    'xreadgroup',
    'xautoclaim',
    'xgroup delconsumer',
    'ltrim',
    'zremrangebyrank',
    'xadd',
    'ping',
    'hset',
  ])
    assert.ok(sent.includes(one), `${one} was not found`);
  const url = await redisUrl(t, true);
  const missing: string[] = [];
  for (const command of sent) {
    const [name = '', ...words] = command.split(' ');
    // A connection of its own: what one command leaves behind (MULTI, SUBSCRIBE) must not answer the next.
    const redis = new Redis(url);
    const answer = await redis.call(name, ...words).catch((error: Error) => error.message);
    if (/unknown (?:sub)?command/.test(String(answer))) missing.push(command);
    redis.disconnect();
  }
  assert.deepEqual(missing, []);
});
