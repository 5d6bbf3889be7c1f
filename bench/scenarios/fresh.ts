/** The time a user waits after cloning the project. Packages come from npm's cache if it has them. */
import { execFile } from 'node:child_process';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import { variables } from '../../lib/contract/variables.ts';
import type { Bench, Scenario } from '../bench.ts';
import { rawWay } from '../lambda-ways.ts';
import { spreadOf } from '../measure.ts';
import { requestsOf } from '../ways.ts';

const ROOT = fileURLToPath(new URL('../..', import.meta.url));
const LIMIT_MS = 300_000;
const FLOOR_STARTS = 5;
const STEPS = [
  ['ci', '--no-audit', '--no-fund'],
  ['start', '--', '--once', '--port', '0'],
] as const;

export const fresh: Scenario = {
  name: 'fresh',
  about: 'npm ci && npm start -- --once on a fresh clone',
  async run(bench) {
    const cwd = join(bench.folder, 'fresh');
    const floor = await floorSeconds(bench);
    const run = promisify(execFile);
    await run('git', ['clone', '--quiet', '--depth', '1', `file://${ROOT}`, cwd], { timeout: LIMIT_MS });
    const rows = [];
    for (const step of STEPS) {
      const begin = performance.now();
      await run('npm', step, { cwd, timeout: LIMIT_MS, env: { ...variables, NODE_COMPILE_CACHE: '' } });
      const value = spreadOf([(performance.now() - begin) / 1000]);
      const base = { raw: floor, ours: value.median, baseUnit: 's' };
      rows.push({
        scenario: 'fresh',
        name: `npm ${step.join(' ')}`,
        metric: 'took',
        unit: 's',
        ...base,
        value,
      });
    }
    return rows;
  },
};

/** The time of a Node process that loads onnxruntime, opens a model and runs it. */
async function floorSeconds(bench: Bench): Promise<number> {
  const { start, check } = await rawWay(bench, await requestsOf(bench, 'mlp', 1));
  const times: number[] = [];
  for (let i = 0; i < FLOOR_STARTS; i++) {
    const { ms = Number.NaN, answer } = await start();
    check(answer);
    times.push(ms);
  }
  return spreadOf(times).median / 1000;
}
