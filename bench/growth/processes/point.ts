/**
 * In: one point of one curve. Out: its sample, in a process of its own that measured nothing before.
 * Trap: only the file of its curve is loaded, so that one curve's code is no memory of another's.
 */
import { serveParent } from '../../processes/child.ts';
import type { OpenWork, PointQuestion, Sample } from '../curve.ts';
import { samplePoint } from '../sample.ts';

const OPENERS: Readonly<Record<string, () => Promise<{ readonly open: OpenWork }>>> = {
  records: () => import('../curves/records.ts'),
  size: () => import('../curves/size.ts'),
  body: () => import('../curves/body.ts'),
  images: () => import('../curves/images.ts'),
  results: () => import('../curves/results.ts'),
  depth: () => import('../curves/depth.ts'),
  model: () => import('../curves/model.ts'),
  outputs: () => import('../curves/outputs.ts'),
  inputs: () => import('../curves/inputs.ts'),
  waiters: () => import('../curves/waiters.ts'),
};

if (process.send) {
  serveParent(async (asked): Promise<Sample> => {
    const question = asked as PointQuestion;
    const opener = OPENERS[question.curve];
    if (!opener) throw new Error(`no curve ${question.curve}`);
    const work = await (await opener()).open(question);
    try {
      return await samplePoint(work, question.timedMs);
    } finally {
      await work.close();
    }
  });
}
