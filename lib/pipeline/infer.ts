/**
 * The data path between decode and filter: bind -> stack -> run -> split.
 * In: records as codecs read them (a slot may already be an error). Out: one outcome per slot, same order.
 * Trap: nothing here knows a clock, a network or an environment; what runs the model is a parameter.
 */
import type { Inputs, Outcome, TensorSpec } from '../contract/values.ts';
import { ServingError } from '../errors.ts';
import { type BatchSettings, boundBytes, type RunTensors, runBatch } from './batch.ts';
import { type BindSettings, type Bound, bindRecord } from './bind.ts';

export async function infer(
  records: readonly (Inputs | ServingError)[],
  specs: readonly TensorSpec[],
  settings: BindSettings & BatchSettings,
  run: RunTensors,
): Promise<Outcome[]> {
  const outcomes: Outcome[] = [];
  let slots: (Bound | ServingError)[] = [];
  let bytes = 0;
  const runSlots = async () => {
    for (const outcome of await runBatch(slots, settings, run)) outcomes.push(outcome);
    slots = [];
    bytes = 0;
  };
  // One after the other: a decoded photo can be a thousand times its message, and only one may be in memory at a time.
  for (const record of records) {
    const slot = await bindOrError(record, specs, settings);
    slots.push(slot);
    if (!(slot instanceof ServingError)) bytes += boundBytes(slot);
    if (bytes >= settings.maxBytes) await runSlots();
  }
  await runSlots();
  return outcomes;
}

async function bindOrError(
  record: Inputs | ServingError,
  specs: readonly TensorSpec[],
  settings: BindSettings,
): Promise<Bound | ServingError> {
  if (record instanceof ServingError) return record;
  try {
    return await bindRecord(record, specs, settings);
  } catch (error) {
    return ServingError.from(error);
  }
}
