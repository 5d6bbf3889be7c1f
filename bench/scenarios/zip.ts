/**
 * In: the project. Out: the bytes of each archive that `npm run package` makes of it.
 * Trap: whether an archive holds onnxruntime is read off the archive, not off a list of names.
 */
import { readdir, readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { packageProject } from '../../test/support/packaging.ts';
import type { Scenario } from '../bench.ts';
import { spreadOf } from '../measure.ts';
import type { Row } from '../report.ts';

/** Names in an archive are not compressed. */
const RUNTIME = Buffer.from('node_modules/onnxruntime-node/');

export const zip: Scenario = {
  name: 'zip',
  about: 'bytes of the archive of each function',
  async run() {
    const packaged = await packageProject();
    try {
      if (packaged.exitCode !== 0) throw new Error(`the packaging failed:\n${packaged.output}`);
      const folder = join(packaged.folder, '.serverless');
      const names = (await readdir(folder)).filter((name) => name.endsWith('.zip'));
      if (names.length === 0) throw new Error('the packaging made no archive');
      const rows: Row[] = [];
      for (const name of names.sort()) {
        const bytes = await readFile(join(folder, name));
        rows.push(rowOf(name.slice(0, -'.zip'.length), bytes));
      }
      return rows;
    } finally {
      await packaged.remove();
    }
  },
};

function rowOf(name: string, bytes: Buffer): Row {
  const holdsRuntime = bytes.includes(RUNTIME);
  return {
    scenario: 'zip',
    name: `${name}, ${holdsRuntime ? 'with' : 'without'} onnxruntime`,
    metric: 'zipped',
    unit: holdsRuntime ? 'MB' : 'kB',
    value: spreadOf([bytes.length / (holdsRuntime ? 1e6 : 1e3)]),
    target: { atMost: holdsRuntime ? 20 : 250 },
  };
}
