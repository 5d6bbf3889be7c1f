/**
 * The data path between decode and filter: bind -> stack -> run -> split.
 * In: records as codecs read them (a slot may already be an error). Out: one outcome per slot, same order.
 * Trap: nothing here knows a clock, a network or an environment; what runs the model is a parameter.
 */
import type { Inputs, Outcome, TensorSpec } from '../contract/values.ts';
import { ServingError } from '../errors.ts';
import { type BatchSettings, type RunTensors, runBatch } from './batch.ts';
import { type BindSettings, bindRecord } from './bind.ts';

export async function infer(
  records: readonly (Inputs | ServingError)[],
  specs: readonly TensorSpec[],
  settings: BindSettings & BatchSettings,
  run: RunTensors,
): Promise<Outcome[]> {
  const slots = await Promise.all(
    records.map(async (record) => {
      if (record instanceof ServingError) return record;
      try {
        return await bindRecord(record, specs, settings);
      } catch (error) {
        return ServingError.from(error);
      }
    }),
  );
  return runBatch(slots, settings, run);
}
