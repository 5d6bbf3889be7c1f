/**
 * In: one point of one curve. Out: its sample, in a process of its own that measured nothing before.
 * Trap: only the file of its curve is loaded, so that one curve's code is no memory of another's.
 */
import { serveParent } from '../../processes/child.ts';
import type { OpenWork } from '../curve.ts';
import type { PointQuestion, Sample } from '../point.ts';
import { samplePoint } from '../sample.ts';

if (process.send) {
  serveParent(async (asked): Promise<Sample> => {
    const question = asked as PointQuestion;
    const { open } = (await import(`../curves/${question.curve}.ts`)) as { readonly open: OpenWork };
    const work = await open(question);
    try {
      return await samplePoint(work, question.timedMs);
    } finally {
      await work.close();
    }
  });
}
