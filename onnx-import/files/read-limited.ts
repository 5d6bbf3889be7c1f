import { readFile, stat } from 'node:fs/promises';
import { join } from 'node:path';
import { badModel } from '../../lib/contract/errors.ts';

/** A file of a model directory, whose size is compared with the limit in bytes before it is read. @throws bad_model */
export async function readLimited(directory: string, name: string, limit: number): Promise<Buffer> {
  const path = join(directory, name);
  let size: number;
  try {
    ({ size } = await stat(path));
  } catch (error) {
    throw badModel(`${name}: cannot be read`, { cause: error });
  }
  if (size > limit) throw badModel(`${name}: has ${size} bytes, the limit is ${limit} bytes`);
  try {
    return await readFile(path);
  } catch (error) {
    throw badModel(`${name}: cannot be read`, { cause: error });
  }
}
