/**
 * Writes V8's code of a function beside it, so that a cold start compiles nothing. V8 takes it when its version and flags are
 * those that made it, on the same kind of processor; otherwise it refuses it, and the function starts as without it. Saves 6 ms
 * of processor time in a cold start of predict.
 */
import { execFile } from 'node:child_process';
import { createRequire } from 'node:module';
import { join } from 'node:path';
import { promisify } from 'node:util';
import type { Processor } from '../function-folder.ts';
import { CACHE, START } from './joined.ts';

/** Those of Lambda's that V8 compares, and a seed, which it does not: with one, the same code is the same bytes. */
const FLAGS = ['--expose-gc', '--random-seed=1'];
const LIMIT_MS = 60_000;

/** Compiles each function of the script, which otherwise happens at its first call. The file's name on Lambda is in the cache. */
const MAKE = `const fs = require('node:fs'), v8 = require('node:v8'), { Script, constants } = require('node:vm');
const { createHash } = require('node:crypto');
const [file, cache] = process.argv.slice(1), filename = '/var/task/${START}';
const importModuleDynamically = constants.USE_MAIN_CONTEXT_DEFAULT_LOADER;
v8.setFlagsFromString('--no-lazy');
const code = fs.readFileSync(file);
const script = new Script(code.latin1Slice(), { filename, importModuleDynamically });
v8.setFlagsFromString('--lazy');
const made = script.createCachedData();
fs.writeFileSync(cache, Buffer.concat([made, createHash('sha256').update(code).update(made).digest()]));`;

/** The Node that the checkout is developed with, which has Lambda's major version. Undefined on other machines. */
export function lambdaNode(processor: Processor): string | undefined {
  if (process.platform !== 'linux' || process.arch !== processor) return undefined;
  try {
    return createRequire(import.meta.url).resolve(`node-linux-${processor}/bin/node`);
  } catch {
    return undefined;
  }
}

/** @returns the file */
export async function writeCodeCache(node: string, folder: string): Promise<string> {
  const cache = join(folder, CACHE);
  const { NODE_OPTIONS: _, ...env } = process.env;
  const options = { env, timeout: LIMIT_MS };
  await promisify(execFile)(node, [...FLAGS, '-e', MAKE, join(folder, START), cache], options);
  return cache;
}
