/**
 * Keeps this version for the upgrade tests of the next one, in kept.tar.br. Run it right after a version has landed, on exactly
 * its commit: `node test/upgrade/keep.ts`. Running it again makes the same data.
 */
import { execFileSync } from 'node:child_process';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { build } from 'esbuild';
import { writePng } from '../support/png.ts';
import * as code from './code.ts';
import { keep } from './kept.ts';
import { dumpBucket, dumpRedis, Ids } from './make/dump.ts';
import { recordRequests, requests } from './make/requests.ts';
import { makeStates, STRANGE_URI } from './make/states.ts';
import { QUESTIONS } from './questions.ts';
import type { Stored } from './stored.ts';
import { openWorld } from './world.ts';

const PROJECT = fileURLToPath(new URL('../..', import.meta.url));

/** Bundles code.ts, the functions and the program of isolated processes. Packages of npm stay imports. */
async function bundle(outdir: string): Promise<void> {
  const functions = code.FUNCTIONS.map((name) => ({ in: `functions/${name}.ts`, out: name }));
  await build({
    absWorkingDir: PROJECT,
    entryPoints: [
      ...functions,
      { in: 'test/upgrade/code.ts', out: 'code' },
      { in: 'lib/compose/isolated-process.ts', out: 'isolated-process' },
    ],
    outdir,
    outExtension: { '.js': '.mjs' },
    bundle: true,
    splitting: true,
    minify: true,
    format: 'esm',
    platform: 'node',
    target: 'node24',
    packages: 'external',
  });
}

async function makeStored(): Promise<Stored> {
  const sample = (x: number, y: number) => [10 * x, 20 * y, 30];
  const png = writePng({ width: 2, height: 2, depth: 8, colourType: 2, sample });
  const world = await openWorld(code);
  try {
    const ids = new Ids();
    const { events, leaseId, versions } = await makeStates(world, ids, png);
    return {
      redis: await dumpRedis(world.redis, ids),
      objects: await dumpBucket(world.aws.s3, world.bucket, ids),
      events,
      requests: await recordRequests(requests(png, STRANGE_URI)),
      facts: { leaseId, versions },
    };
  } finally {
    await world.close();
  }
}

async function makeAnswers(stored: Stored): Promise<Record<string, unknown>> {
  const world = await openWorld(code);
  try {
    const answers: Record<string, unknown> = {};
    for (const { name, ask } of QUESTIONS) {
      await world.restore(stored);
      answers[name] = await ask(world, stored);
    }
    return answers;
  } finally {
    await world.close();
  }
}

const folder = await mkdtemp(join(tmpdir(), 'cs-keep-'));
try {
  await bundle(folder);
  const stored = await makeStored();
  const answers = await makeAnswers(stored);
  const commit = execFileSync('git', ['rev-parse', '--short=8', 'HEAD'], { cwd: PROJECT }).toString().trim();
  console.log(`${await keep(folder, { commit, stored, answers })} bytes of ${commit}`);
} finally {
  await rm(folder, { recursive: true, force: true });
}
