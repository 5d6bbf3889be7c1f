/** Looks for the seed that finds a planted fault. */
import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { after, type TestContext } from 'node:test';
import { fileURLToPath } from 'node:url';
import { type Bundler, openBundler, type Patch } from '../machine/bundle.ts';
import { Simulator } from '../simulate.ts';
import type { PlantedFault } from './list.ts';

const ROOT = fileURLToPath(new URL('../../..', import.meta.url));
/** Far fewer find those of list.ts. */
const MOST_SEEDS = 1_000;

let bundler: Promise<Bundler> | undefined;
after(async () => (await bundler)?.close());

/** The programs of a file's tests share what is not changed. */
export async function openPlanted(fault: Patch): Promise<Simulator> {
  bundler ??= openBundler();
  const shared = await bundler;
  return Simulator.open([fault], undefined, (patches) => shared.programs(patches));
}

export const firstSeeds = (): number[] => Array.from({ length: MOST_SEEDS }, (_, i) => i + 1);

/** @returns the seed whose history breaks an invariant that is about the fault */
export async function assertFound(
  t: TestContext,
  fault: PlantedFault,
  seeds: readonly number[],
): Promise<number> {
  const text = readFileSync(join(ROOT, fault.file), 'utf8');
  assert.equal(text.split(fault.find).length, 2, `${fault.file} has the text to replace exactly once`);
  const simulator = await openPlanted(fault);
  for (const seed of seeds) {
    const { violations } = await simulator.seed(seed);
    const found = violations.find(({ invariant }) => fault.seenBy.includes(invariant));
    if (!found) continue;
    t.diagnostic(`seed ${seed}: ${found.invariant}: ${found.text}`);
    return seed;
  }
  return assert.fail(`no seed of ${seeds.length} finds it (planted.long.test.ts names one that does)`);
}
