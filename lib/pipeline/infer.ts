/**
 * The default run stage: bind -> batch -> run -> split, in front of a runner of tensors. Takes records from codecs (a
 * slot may already be an error) and returns one outcome per slot, in the same order.
 */
import { inInstance } from '../codecs/instances.ts';
import { ServingError } from '../contract/errors.ts';
import type { Inputs, Outcome, RunPolicy, TensorSpec } from '../contract/values.ts';
import { type BatchSettings, feedBytes, type RunTensors, runBatch } from './batch/batch.ts';
import { type BindSettings, bindRecord, type Feeds } from './bind/bind.ts';
import { assertDecodedSize } from './bind/decoded-size.ts';

/**
 * @throws with `failFast`: too_large when the records exceed their budget, and the first failure with its index.
 * Nothing is decoded after it.
 */
export async function infer(
  records: readonly (Inputs | ServingError)[],
  specs: readonly TensorSpec[],
  jobSettings: BindSettings & BatchSettings,
  run: RunTensors,
  { failFast = false, isOver = () => false, exactSignature = false, isRow = false }: RunPolicy = {},
): Promise<Outcome[]> {
  const settings =
    exactSignature || isRow
      ? { ...jobSettings, inputAlreadyBatched: exactSignature, byName: true, takesEmpty: exactSignature }
      : jobSettings;
  const runInTime: RunTensors = (feeds) => (isOver() ? Promise.reject(noTime()) : run(feeds, isOver));
  const outcomes: Outcome[] = [];
  let slots: (Feeds | ServingError)[] = [];
  let bytes = 0;
  const runSlots = async () => {
    for (const outcome of await runBatch(slots, settings, runInTime)) {
      if (failFast && !outcome.ok) throw inInstance(outcome.error, outcomes.length, records.length);
      outcomes.push(outcome);
    }
    slots = [];
    bytes = 0;
  };
  if (failFast) {
    const readable = records.filter((record): record is Inputs => !(record instanceof ServingError));
    assertDecodedSize(readable, specs, settings.image, 'request');
  }
  // One after the other, because a decoded photo can be a thousand times its message, and only one may be in memory
  // at a time.
  for (const [index, record] of records.entries()) {
    const bound = isOver() ? noTime() : bindOrError(record, specs, settings, failFast);
    const slot = bound instanceof Promise ? await bound : bound;
    if (failFast && slot instanceof ServingError) throw inInstance(slot, index, records.length);
    slots.push(slot);
    if (!(slot instanceof ServingError)) bytes += feedBytes(slot);
    if (bytes >= settings.maxBytes) await runSlots();
  }
  await runSlots();
  return outcomes;
}

function noTime(): ServingError {
  return new ServingError('timeout', 'there was no time left for this record');
}

/** @param counted the budget was checked for all records together */
function bindOrError(
  record: Inputs | ServingError,
  specs: readonly TensorSpec[],
  settings: BindSettings,
  counted: boolean,
): Feeds | ServingError | Promise<Feeds | ServingError> {
  if (record instanceof ServingError) return record;
  try {
    if (!counted) assertDecodedSize([record], specs, settings.image, 'record');
    const bound = bindRecord(record, specs, settings);
    return bound instanceof Promise ? bound.catch((error: unknown) => ServingError.from(error)) : bound;
  } catch (error) {
    return ServingError.from(error);
  }
}
