/** Measures how much a process grows that opens a model and runs one row. Each is measured in a process of its own, which has opened no other. */
import { peakMemory } from '../../lib/inference/peak-memory.ts';
import { openSession } from '../../lib/inference/session.ts';
import { readFacts } from '../../onnx-import/index.ts';
import { singleRows } from '../../onnx-import/inputs.ts';

/** @returns bytes, at the largest. @throws model_unavailable when it does not open */
export async function growthOf(file: string): Promise<number> {
  // Loads what reads models, whose code is not the model's.
  const shapeless = (await readFacts(file)).shapelessInputs;
  const [before, peakBefore] = [process.memoryUsage.rss(), peakMemory()];
  const session = await openSession(file, { threads: 1 });
  try {
    for (const feeds of singleRows(file, session.inputs, { shapeless }, 0)) {
      const hasRun = await session.run(feeds).then(
        () => true,
        () => false,
      );
      if (hasRun) break;
    }
    const most = peakMemory() > peakBefore ? peakMemory() : process.memoryUsage.rss();
    return Math.max(1, most - before);
  } finally {
    await session.close();
  }
}
