/** Reads the parameters of a stage from a serverless.yml. That of this package has all; one of a user may have some, which win. */
import { readFile, stat } from 'node:fs/promises';
import { parseDocument } from 'yaml';
import { asError, badConfig } from '../../lib/contract/errors.ts';

const MAX_BYTES = 1024 * 1024;

export type StageParameters = Readonly<Record<string, string | number>>;

/** @throws bad_config for a file that cannot be read */
export async function stageParameters(path: string, stage: string): Promise<StageParameters> {
  try {
    const { size } = await stat(path);
    if (size > MAX_BYTES) throw new Error(`${size} bytes are over the limit of ${MAX_BYTES}`);
    const document = parseDocument(await readFile(path, 'utf8'), { logLevel: 'error' });
    const [broken] = document.errors;
    if (broken) throw broken;
    const { params } = document.toJS({ maxAliasCount: 100 }) as {
      params?: Readonly<Record<string, StageParameters>>;
    };
    return { ...params?.['default'], ...params?.[stage] };
  } catch (error) {
    throw badConfig(`${path} cannot be read: ${asError(error).message}`);
  }
}
