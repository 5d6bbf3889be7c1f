/**
 * Opens each model file of a folder and prints one line of JSON per file: what happened, and that a good model still
 * answers in this process.
 */
import { readdir } from 'node:fs/promises';
import { join } from 'node:path';
import { decodeInstances } from '../../../../lib/codecs/instances.ts';
import { openOnnx } from '../../../../lib/compose/onnx.ts';
import { ServingError } from '../../../../lib/contract/errors.ts';
import { predictionTexts } from '../../../../lib/http/predictions.ts';

const SETTINGS = { threads: 1, batchSize: 4, inputAlreadyBatched: false, image: {} };
const [good, folder] = process.argv.slice(2) as [string, string];

async function answerOf(file: string): Promise<string> {
  const runner = await openOnnx(file, 'test', SETTINGS);
  try {
    const outcomes = await runner.run(decodeInstances('{"instances":[{"x":[1,2]}]}'));
    return predictionTexts(outcomes, undefined).join();
  } finally {
    await runner.close();
  }
}

for (const name of (await readdir(folder)).toSorted()) {
  const happened = await answerOf(join(folder, name)).then(
    (answer) => ({ answer }),
    (error: unknown) => ({
      // Not `ServingError.from`: what is not ours must be seen as that.
      code: error instanceof ServingError ? error.code : 'foreign',
      message: error instanceof Error ? error.message : String(error),
    }),
  );
  process.stdout.write(`${JSON.stringify({ name, ...happened, after: await answerOf(good) })}\n`);
}
