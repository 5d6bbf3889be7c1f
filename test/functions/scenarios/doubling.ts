/** A model that fails every seventh record and doubles the rest, for tests of what surrounds it. */
import { ServingError } from '../../../lib/contract/errors.ts';
import type { Inputs, Model, Outcome } from '../../../lib/contract/values.ts';

export const inputsOf = (value: number): Inputs =>
  new Map([
    ['x', { kind: 'tensor', tensor: { dtype: 'float32', shape: [1], data: Float32Array.of(value) } }],
  ]);

const runner = {
  version: 'v1',
  close: async () => undefined,
  run: async (records: readonly Inputs[]) =>
    records.map((record): Outcome => {
      const x = record.get('x');
      const value = x?.kind === 'tensor' ? Number(x.tensor.data[0]) : 0;
      if (value % 7 === 0) return { ok: false, error: new ServingError('model_failed', 'seven') };
      const data = Float32Array.of(2 * value);
      return { ok: true, outputs: [{ name: 'y', dtype: 'float32', shape: [1], data }] };
    }),
};
export const model: Model = { use: (work) => work(runner) };
