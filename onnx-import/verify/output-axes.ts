/** Which outputs follow the one row of a run, where neither the proof nor the declared shapes say it. */
import type { Tensor } from '../../lib/contract/tensor.ts';
import type { BatchAxis } from '../../lib/contract/values.ts';
import type { BatchAxes } from '../../lib/contract/verification.ts';
import type { Session } from '../../lib/inference/session.ts';
import { fixedBatch } from '../../lib/inference/warm-up.ts';
import { declaredOutputAxes } from '../../lib/pipeline/batch/batch-axes.ts';

/** The outputs of a run. */
interface Answer {
  readonly rows: number;
  readonly outputs: readonly Tensor[];
}

/**
 * @param answers of runs of one row that differ in their values: an output that has another size for any of them follows
 * no rows
 * @param together of a run of several rows: an output with one place may have it for any number of rows
 * @returns only what differs from the declared shapes
 */
export function shownOutputAxes(
  { inputs, outputs }: Pick<Session, 'inputs' | 'outputs'>,
  answers: readonly (readonly Tensor[])[],
  together?: Answer,
): BatchAxes {
  const rows = fixedBatch(inputs) ?? 1;
  const declared = declaredOutputAxes(outputs, inputs);
  const shown = new Map<string, BatchAxis>();
  for (const [i, { name }] of outputs.entries()) {
    const axis = declared[i] ?? 0;
    if (axis === 'none') continue;
    const isLost =
      declared[i] === undefined && together && together.outputs[i]?.shape[axis] !== together.rows;
    const follows = !isLost && answers.every((answer) => answer[i]?.shape[axis] === rows);
    if (!follows) shown.set(name, 'none');
    else if (declared[i] === undefined) shown.set(name, axis);
  }
  return Object.fromEntries(shown);
}
