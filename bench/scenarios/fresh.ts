/** The time a user waits after cloning the project. Packages come from npm's cache if it has them. */
import { execFile } from 'node:child_process';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import { variables } from '../../lib/contract/variables.ts';
import type { Scenario } from '../bench.ts';
import { spreadOf } from '../measure.ts';

const ROOT = fileURLToPath(new URL('../..', import.meta.url));
const LIMIT_MS = 300_000;
const STEPS = [
  ['ci', '--no-audit', '--no-fund'],
  ['start', '--', '--once', '--port', '0'],
] as const;

export const fresh: Scenario = {
  name: 'fresh',
  about: 'npm ci && npm start -- --once on a fresh clone',
  async run({ folder }) {
    const cwd = join(folder, 'fresh');
    const run = promisify(execFile);
    await run('git', ['clone', '--quiet', '--depth', '1', `file://${ROOT}`, cwd], { timeout: LIMIT_MS });
    const rows = [];
    for (const step of STEPS) {
      const begin = performance.now();
      await run('npm', step, { cwd, timeout: LIMIT_MS, env: { ...variables, NODE_COMPILE_CACHE: '' } });
      const value = spreadOf([(performance.now() - begin) / 1000]);
      rows.push({ scenario: 'fresh', name: `npm ${step.join(' ')}`, metric: 'took', unit: 's', value });
    }
    return rows;
  },
};
