/** Modules of torch.jit.script answer as torch does (scripted.py), within 1e-5 of the spread of its answer. */
import { suite, test } from 'node:test';
import { assertAnswers, importArchive, readCases } from '../support/pytorch/answers.ts';

suite('modules of torch.jit.script', () => {
  for (const each of readCases(new URL('scripted.json.gz', import.meta.url))) {
    test(`${each.name}: the converted model answers as torch does`, async (t) => {
      const shapes = Object.entries(each.inputs).map(([key, { shape }]) => [key, shape] as const);
      const bytes = Buffer.from(each.model, 'latin1');
      await assertAnswers(t, await importArchive(t, 'model.pt', bytes, Object.fromEntries(shapes)), each);
    });
  }
});
