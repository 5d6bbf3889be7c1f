/** The work that goes through a queue, and the check of its results. */
import { elementAt } from '../lib/contract/present.ts';
import type { RecordInputs } from '../sdk/inputs.ts';
import type { OutputQueue } from '../sdk/output-queue.ts';
import type { Bench } from './bench.ts';
import { type BenchModel, type ModelName, randomRows, rowOfUri } from './models.ts';
import { answersFor, assertSame, floatsOf } from './raw.ts';

/** Inputs with their answers; the number at the end of a record's uri says which it holds. */
export interface QueueWork {
  readonly model: BenchModel;
  readonly inputs: readonly RecordInputs[];
  readonly answers: readonly Float32Array[];
}

export async function tensorWork(bench: Bench, name: ModelName, count: number): Promise<QueueWork> {
  const model = await bench.model(name);
  const rows = randomRows(31, model.rowShape, count);
  const inputs = rows.map((data) => ({ [model.input]: { data, shape: model.rowShape } }));
  return { model, inputs, answers: await answersFor(model, rows) };
}

/** Takes the results. @throws when one is missing or wrong */
export async function checkResults(
  results: OutputQueue,
  answers: QueueWork['answers'],
  records: number,
): Promise<void> {
  let checked = 0;
  for await (const { uri, ...rest } of results.drain()) {
    if ('error' in rest) throw rest.error;
    const expected = elementAt(answers, rowOfUri(uri, answers.length), 'answers');
    assertSame(floatsOf(rest.result.outputs[0]), expected, uri);
    checked++;
  }
  if (checked !== records) throw new Error(`${checked} results instead of ${records}`);
}

/** The numbers of each input, in turn. */
export function rowsOf({ model, inputs }: QueueWork): readonly Float32Array[] {
  return inputs.map((each) => (each[model.input] as { readonly data: Float32Array }).data);
}
