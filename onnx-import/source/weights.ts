/** Checks the external weights of an ONNX file before they are copied. onnxruntime reads whatever bytes are in their place. */
import { stat } from 'node:fs/promises';
import { join } from 'node:path';
import { badModel } from '../../lib/contract/errors.ts';
import { readHead, wrongContent } from '../../lib/registry/onnx-file.ts';

/**
 * @param name of the model's file
 * @param bytes the least size of each file, by its path in the directory
 * @throws bad_model naming the file that is missing, cut off or another one
 */
export async function assertWeights(
  directory: string,
  name: string,
  bytes: ReadonlyMap<string, number>,
): Promise<void> {
  for (const [path, least] of bytes) {
    const file = join(directory, path);
    const found = await stat(file).catch(() => undefined);
    if (!found?.isFile())
      throw badModel(
        `${file} is missing, which holds weights of ${name}; put it there under this name, as the exporter wrote it`,
      );
    const wrong = found.size > 0 ? wrongContent(await readHead(file)) : undefined;
    // Weights may begin with any bytes but these two texts.
    if (wrong !== undefined && /Git LFS|web page/.test(wrong))
      throw badModel(`${file}: expected weights of ${name}, found ${wrong}`);
    if (found.size < least)
      throw badModel(
        `${file}: expected at least ${least} bytes of weights of ${name}, found ${found.size}: the file is cut off or of another model; fetch it again`,
      );
  }
}
