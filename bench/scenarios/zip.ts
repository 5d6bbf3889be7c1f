/** The bytes of each archive that `npm run package` makes. Whether one holds onnxruntime is read from the archive. */
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
      const rowOf = async (name: string): Promise<Row> => {
        const bytes = await readFile(join(folder, name));
        const holdsRuntime = bytes.includes(RUNTIME);
        return {
          scenario: 'zip',
          name: `${name.slice(0, -'.zip'.length)}, ${holdsRuntime ? 'with' : 'without'} onnxruntime`,
          metric: 'zipped',
          unit: holdsRuntime ? 'MB' : 'kB',
          value: spreadOf([bytes.length / (holdsRuntime ? 1e6 : 1e3)]),
        };
      };
      return await Promise.all(names.toSorted().map(rowOf));
    } finally {
      await packaged.remove();
    }
  },
};
