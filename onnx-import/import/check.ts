/** Converted -> Checked -> Verified: runs the model, compares it with its reference, and proves what its rows may share. */
import { join } from 'node:path';
import { badModel } from '../../lib/contract/errors.ts';
import { proposedAxes } from '../batching/axis-proposal.ts';
import { readModel } from '../batching/model.ts';
import { prove } from '../batching/verdict.ts';
import { checkOnnx } from '../check/check.ts';
import type { CheckReport } from '../check/run.ts';
import { readStateDict } from '../formats/pytorch/files/state-dict.ts';
import { referenceProblem } from '../report/import-report.ts';
import { givenBy, notRunNotes, shapelessNotes } from '../report/notes.ts';
import { hasFreeSizes } from '../samples/inputs.ts';
import { isOnnx } from '../source/kinds.ts';
import { importText } from '../text/import.ts';
import { findRewrites, verifyModel } from '../verify/verify.ts';
import { type Checked, type Converted, MODEL_FILE, type Verified, type Workshop } from './stages.ts';

/** @throws bad_model when it does not load, does not run, or is not what its reference says */
export async function checkConverted(converted: Converted, workshop: Workshop): Promise<Checked> {
  const { found, shapeless } = converted;
  const checked = await check(shapeless.inputs, workshop);
  const { report, rewrites } = checked;
  const text = found.isText
    ? await importText(found.directory, workshop.folder, report, {
        ignore: workshop.ignore ?? [],
        readPickle: readStateDict,
      })
    : undefined;
  if (!isOnnx(found.kind)) {
    assertRuns(report, shapeless.inputs);
    const notes = [
      ...(text?.notes ?? []),
      ...converted.notes,
      ...notRunNotes(report, 'fix the free sizes with --input name:shape'),
      ...shapeless.inputs.flatMap((name) => shapelessNotes([name], givenBy(name))),
    ];
    return { ...converted, ...checked, notes, text };
  }
  const notes = [
    ...(text?.notes ?? []),
    ...new Set([...converted.notes, ...rewrites.open]),
    ...notRunNotes(report, 'give the free sizes with --input name:shape'),
    ...shapelessNotes(shapeless.inputs, 'export the model with its shape, so that it has one'),
  ];
  return { ...converted, ...checked, notes, text };
}

/** Finds the rewrites to disable first; everything after runs without them. */
async function check(
  shapeless: readonly string[],
  workshop: Workshop,
): Promise<Pick<Checked, 'report' | 'rewrites' | 'proposed'>> {
  workshop.onStage?.('checking');
  const { folder, proof, sizes, signal, process } = workshop;
  const file = join(folder, MODEL_FILE);
  const inputs = readModel(file).graph.inputs.map(({ name, shape = [] }) => ({ name, shape }));
  const proposed = proposedAxes(inputs, shapeless);
  const batchAxes = { ...proposed, ...proof?.batchAxes };
  const sharesRuns = prove(file, { ...proof, batchAxes }).verdict.verdict === 'proven';
  const rewrites = await findRewrites(file, { batchAxes, sizes, signal, process });
  const optimization = rewrites.runtime;
  const report = await checkOnnx(file, { ...workshop, shapeless, sharesRuns, optimization });
  const problem = referenceProblem(report);
  if (problem) throw badModel(problem);
  return { report, rewrites, proposed };
}

/** A model with open sizes may run on others than those that were made up. */
function assertRuns({ notRun, inputs, reference }: CheckReport, shapeless: readonly string[]): void {
  const isOpen = hasFreeSizes(inputs) || shapeless.length > 0 || reference !== undefined;
  if (notRun !== undefined && !isOpen) {
    throw badModel(`the model was converted but does not run: ${notRun}`);
  }
}

export async function verifyChecked(checked: Checked, workshop: Workshop): Promise<Verified> {
  workshop.onStage?.('verifying');
  const { folder, proof = {}, sizes, signal, process } = workshop;
  const { rewrites, proposed } = checked;
  // No record reaches such a model without these axes, so the verdict is about them.
  const batchAxes = { ...proposed, ...proof.batchAxes };
  const file = join(folder, MODEL_FILE);
  const verification = await verifyModel(file, { ...proof, batchAxes, rewrites, sizes, signal, process });
  return { ...checked, verification };
}
