/**
 * Asks a running service for the same rows in each way that its clients have: JSON and CSV to /predict, JSON and bytes to
 * /v2, and records in the queue; by the inputs of the model, and by its columns where it has some.
 */
import { DATATYPES, DTYPES } from '../../lib/codecs/open-inference/tensor.ts';
import { readTexts } from '../../lib/codecs/open-inference/texts.ts';
import { elementCount, type NumericDType, type Tensor, viewBytes } from '../../lib/contract/tensor.ts';
import type { Stack } from '../../local/service/stack.ts';
import { InputQueue, OutputQueue, type RecordInputs } from '../../sdk/index.ts';
import { ALL_BINARY } from './inference-endpoint.ts';
import { toNested } from './npy.ts';
import { bytesOf, inferRequest, receivedOf, type SentTensor, textBytes } from './open-inference.ts';
import type { Hooks } from './runner.ts';
import { clientOptions } from './stack.ts';
import type { Answer } from './three-paths.ts';

export interface Rows {
  readonly count: number;
  /** By name, with the batch axis first where they have one. */
  readonly inputs: Readonly<Record<string, Tensor>>;
  /** Inputs without a batch axis. */
  readonly shared?: readonly string[];
  /** The names of the columns of the only input. */
  readonly columns?: readonly string[] | undefined;
}

/** An output of all rows, with its batch axis. */
export interface Output extends Answer {
  readonly labels?: readonly string[] | undefined;
}

type RowInputs = Readonly<Record<string, Tensor>>;

/** Each way to ask, and the outputs that came, in the model's order. */
export async function* answersOf(
  t: Hooks,
  stack: Stack,
  rows: Rows,
): AsyncGenerator<readonly [path: string, outputs: readonly Output[]]> {
  const records = Array.from({ length: rows.count }, (_, row) => recordOf(rows, row));
  yield ['/predict', await predicted(stack, records.map(jsonOf))];
  yield ['/v2 as JSON', await inferred(stack, rows, false)];
  yield ['/v2 as bytes', await inferred(stack, rows, true)];
  yield ['the queue', await queued(t, stack, records)];
  const cells = records.map((record) => cellsOf(record, rows));
  if (!cells[0]) return;
  // The order of names must not matter, so they come in the other one.
  const reversed = cells.map((row) => Object.fromEntries(Object.entries(row ?? {}).reverse()));
  yield ['/predict by column', await predicted(stack, reversed)];
  const lines = [Object.keys(reversed[0] ?? {}), ...reversed.map((row) => Object.values(row))];
  const csv = lines.map((line) => line.map(csvCell).join(',')).join('\n');
  yield ['/predict as CSV', await predicted(stack, csv)];
  yield ['the queue by column', await queued(t, stack, reversed.map(recordInputs))];
}

/** One row of each input, without its batch axis. */
function recordOf({ inputs, shared = [] }: Rows, row: number): RowInputs {
  const rowOf = ({ dtype, shape, data }: Tensor) => {
    const size = elementCount(shape.slice(1));
    return { dtype, shape: shape.slice(1), data: data.slice(row * size, (row + 1) * size) } as Tensor;
  };
  return Object.fromEntries(
    Object.entries(inputs).map(([name, tensor]) => [name, shared.includes(name) ? tensor : rowOf(tensor)]),
  );
}

type Cell = number | string | null;

const jsonOf = (record: RowInputs) =>
  Object.fromEntries(Object.entries(record).map(([name, tensor]) => [name, toNested(tensor)]));

/** The elements of a table's row by the names of its columns; undefined for anything but a table. */
function cellsOf(record: RowInputs, { columns }: Rows): Readonly<Record<string, Cell>> | undefined {
  const cell = (value: unknown) =>
    typeof value === 'string' ? value : Number.isNaN(Number(value)) ? null : Number(value);
  const tensors = Object.entries(record);
  const [[, only] = []] = tensors;
  if (columns && only) return Object.fromEntries(columns.map((name, i) => [name, cell(only.data[i])]));
  if (tensors.some(([, { shape }]) => shape.length > 1 || elementCount(shape) !== 1)) return undefined;
  return Object.fromEntries(tensors.map(([name, { data }]) => [name, cell(data[0])]));
}

const csvCell = (cell: Cell) => (typeof cell === 'string' ? `"${cell.replaceAll('"', '""')}"` : (cell ?? ''));

const recordInputs = (cells: Readonly<Record<string, Cell>>): RecordInputs =>
  Object.fromEntries(
    Object.entries(cells).map(([name, cell]) => [name, typeof cell === 'string' ? [cell] : cell]),
  );

/** Each output of the records as one, with a batch axis. */
function joined(records: readonly (readonly Output[])[]): Output[] {
  return (records[0] ?? []).map(({ shape, labels }, i) => {
    const parts = records.map((outputs) => outputs[i] as Output);
    if (parts.some((part) => String(part.shape) !== String(shape))) throw new Error('the shapes differ');
    return { shape: [records.length, ...shape], data: parts.flatMap(({ data }) => [...data]), labels };
  });
}

async function post(url: string, body: string | Uint8Array<ArrayBuffer>, headers: Record<string, string>) {
  const response = await fetch(url, { method: 'POST', body, headers });
  const bytes = Buffer.from(await response.arrayBuffer());
  if (response.status !== 200) throw new Error(`${response.status} ${bytes.toString()}`);
  return { bytes, headers: response.headers };
}

/** @param records instances, or a table as CSV */
async function predicted(stack: Stack, records: readonly object[] | string): Promise<Output[]> {
  const isCsv = typeof records === 'string';
  const { bytes } = await post(
    `${stack.url}/predict`,
    isCsv ? records : JSON.stringify({ instances: records }),
    { 'content-type': isCsv ? 'text/csv' : 'application/json' },
  );
  const { predictions } = JSON.parse(bytes.toString()) as { predictions: string[] };
  return joined(predictions.map((text) => [JSON.parse(text.slice('{value='.length, -1)) as Answer].flat()));
}

async function inferred(stack: Stack, { inputs }: Rows, isBinary: boolean): Promise<Output[]> {
  const sent = Object.entries(inputs).map(([name, tensor]): SentTensor => {
    const { dtype, shape, data } = tensor;
    const content = isBinary
      ? { bytes: dtype === 'string' ? textBytes(data) : bytesOf(data) }
      : { data: toNested(tensor) };
    return { name, datatype: DATATYPES[dtype], shape, ...content };
  });
  const { body, headers } = inferRequest(sent, isBinary ? ALL_BINARY : {});
  const answer = await post(`${stack.url}/v2/models/serving_stream/infer`, new Uint8Array(body), headers);
  const { outputs } = receivedOf(answer.bytes, answer.headers.get('inference-header-content-length'));
  return outputs.map(({ datatype, shape, data, bytes }) => {
    if (!bytes) return { shape, data: data as readonly unknown[] };
    const dtype = DTYPES.get(datatype);
    const values =
      dtype === 'string'
        ? readTexts(bytes, elementCount(shape))
        : Array.from(viewBytes(dtype as NumericDType, bytes) as Float32Array);
    return { shape, data: values };
  });
}

let uris = 0;

async function queued(t: Hooks, stack: Stack, records: readonly RecordInputs[]): Promise<Output[]> {
  const options = clientOptions(stack);
  const input = new InputQueue(options.input);
  const output = new OutputQueue(options.output);
  t.after(async () => void (await Promise.all([input.close(), output.close()])));
  const named = records.map((inputs) => ({ uri: `row-${uris++}`, inputs }));
  await input.enqueueMany(named);
  const results = await Promise.all(
    named.map(async ({ uri }) => {
      await output.wait(uri);
      const result = await output.query(uri);
      return result?.outputs.map(({ shape, data, labels }) => {
        return { shape, data: Array.from(data as ArrayLike<unknown>), labels };
      });
    }),
  );
  return joined(results.map((outputs) => outputs ?? []));
}
