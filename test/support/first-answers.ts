/** The answers of a model to made-up inputs, to compare two files that should mean the same. */
import type { NamedTensor } from '../../lib/contract/values.ts';
import { openSession } from '../../lib/inference/session.ts';
import { singleRows } from '../../onnx-import/inputs.ts';

/** @returns undefined for a model that takes none of them */
export async function firstAnswers(path: string): Promise<readonly NamedTensor[] | undefined> {
  const session = await openSession(path, { threads: 1 });
  try {
    for (const feeds of singleRows(path, session.inputs, { shapeless: [] })) {
      const answers = await session.run(feeds).catch(() => undefined);
      if (answers) return answers;
    }
    return undefined;
  } finally {
    await session.close();
  }
}
