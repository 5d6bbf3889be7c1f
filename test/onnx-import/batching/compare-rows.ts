/** Runs rows of a model alone and in company, without the product's own batching, and says where they differ. */
import { elementCount, type Tensor } from '../../../lib/contract/tensor.ts';
import { openSession } from '../../../lib/inference/session.ts';
import { rowAt, stackRows } from '../../../onnx-import/samples/rows.ts';
import { random } from './random-graphs.ts';

export type Company =
  | { readonly kind: 'same' }
  /** A row in company was not what it is alone. */
  | { readonly kind: 'differs'; readonly what: string }
  /** The model does not load, or a row does not run alone. */
  | { readonly kind: 'fails'; readonly what: string };

/**
 * @param rows of each input: tensors with a first dimension of 1
 * @param batches how many random batches are run
 * @param fixedRows rows that a run has in any case, filled up with zeros
 */
export async function compareRows(
  file: string,
  rows: readonly (readonly Tensor[])[],
  batches: number,
  fixedRows?: number,
): Promise<Company> {
  const session = await openSession(file, { threads: 1 }).catch((error: Error) => error.message);
  // An optimizer of onnxruntime may fail on a graph that is right.
  if (typeof session === 'string') return { kind: 'fails', what: session };
  try {
    const alone: (readonly Tensor[])[] = [];
    try {
      for (const row of rows)
        alone.push(await session.run(row.map((tensor) => stackRows([tensor], 0, fixedRows))));
    } catch (error) {
      return { kind: 'fails', what: (error as Error).message };
    }
    for (const output of alone.flat()) {
      if (output.shape[0] !== (fixedRows ?? 1))
        return { kind: 'differs', what: `shape ${output.shape.join()} for one row` };
    }
    const next = random(batches);
    for (let batch = 0; batch < batches; batch++) {
      const count = 2 + Math.floor(next() * (Math.min(rows.length, fixedRows ?? rows.length) - 1));
      const total = fixedRows ?? count;
      const order = Array.from({ length: count }, () => Math.floor(next() * rows.length));
      const feeds = session.inputs.map((_, i) =>
        stackRows(
          order.map((row) => rows[row]?.[i] as Tensor),
          0,
          total,
        ),
      );
      let outputs: readonly Tensor[];
      try {
        outputs = await session.run(feeds);
      } catch (error) {
        return { kind: 'differs', what: `${count} rows do not run: ${(error as Error).message}` };
      }
      for (const [i, output] of outputs.entries()) {
        if (output.shape[0] !== total)
          return { kind: 'differs', what: `shape ${output.shape.join()} for ${total} rows` };
        for (const [place, row] of order.entries()) {
          const what = difference(
            rowAt(output, 0, place),
            rowAt(alone[row]?.[i] as Tensor, 0, 0),
            alone.map((answer) => rowAt(answer[i] as Tensor, 0, 0)),
          );
          if (what !== undefined)
            return { kind: 'differs', what: `row ${place} of ${count}, output ${i}: ${what}` };
        }
      }
    }
    return { kind: 'same' };
  } finally {
    await session.close();
  }
}

/** 1e-3 of the value, as the corpus' README has it, and what rounding leaves where values of about 10 cancel out. */
function difference(got: Tensor, want: Tensor, all: readonly Tensor[]): string | undefined {
  if (elementCount(got.shape) !== elementCount(want.shape))
    return `shape ${got.shape.join()} for ${want.shape.join()}`;
  for (let i = 0; i < want.data.length; i++) {
    const [a, b] = [got.data[i], want.data[i]];
    if (Object.is(a, b) || a === b) continue;
    const [x, y] = [Number(a), Number(b)];
    const isFloat = got.dtype.startsWith('float');
    // Most are; what the others have to be is dearer to say.
    if (isFloat && Math.abs(x - y) <= 1e-4 * Math.abs(y)) continue;
    const values = all.map((tensor) => Number(tensor.data[i])).filter(Number.isFinite);
    const spread = Math.max(...values) - Math.min(...values);
    const largest = Math.max(...values.map(Math.abs));
    const within = Math.abs(x - y) <= 1e-3 * Math.abs(y) + 1e-4 * spread + 1e-5 * Math.max(largest, 10);
    if (!isFloat || !within) return `${String(a)} for ${String(b)} at ${i}`;
  }
  return undefined;
}
