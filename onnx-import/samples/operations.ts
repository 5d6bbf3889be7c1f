/** Counts the operations of one run, from the shapes that onnxruntime reports for each node of it. */
import { mkdtemp, readdir, readFile, rm, stat } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { elementCount, type Tensor } from '../../lib/contract/tensor.ts';
import { AS_WRITTEN } from '../../lib/contract/verification.ts';
import { openSession } from '../../lib/inference/session.ts';

/** By dtype; one for each input or output. */
type Shapes = readonly Readonly<Record<string, readonly number[]>>[];

interface Event {
  readonly name: string;
  readonly args?: {
    readonly op_name?: string;
    readonly input_type_shape?: Shapes;
    readonly output_type_shape?: Shapes;
  };
}

/** A longer report, of a loop of many turns, is not read. */
const MOST_BYTES = 128 * 1024 * 1024;
/** Of a run with such a report. */
const MANY = 1e10;
/** An element that is only read and written takes as long as so many products of a matrix. */
const ELEMENT = 8;

/** Multiplications and additions of one run, and what else takes as long. The same on every machine. */
export async function operationsOf(file: string, feeds: readonly Tensor[]): Promise<number> {
  const folder = await mkdtemp(join(tmpdir(), 'cs-operations-'));
  try {
    const session = await openSession(file, {
      threads: 1,
      optimization: AS_WRITTEN,
      profile: join(folder, 'run'),
    });
    try {
      await session.run(feeds);
    } finally {
      await session.close();
    }
    const [name] = await readdir(folder);
    const path = join(folder, name ?? '');
    if ((await stat(path)).size > MOST_BYTES) return MANY;
    const events = JSON.parse(await readFile(path, 'utf8')) as Event[];
    const nodes = events.filter((event) => event.name.endsWith('_kernel_time'));
    return nodes.reduce((sum, event) => sum + operations(event), 0);
  } finally {
    await rm(folder, { recursive: true, force: true });
  }
}

function operations({ args = {} }: Event): number {
  const [inputs, outputs] = [shapesOf(args.input_type_shape), shapesOf(args.output_type_shape)];
  const [made, read] = [sizeOf(outputs), sizeOf(inputs)];
  return ELEMENT * Math.max(made, read) + products(args.op_name ?? '', inputs, made);
}

/** Of a convolution or a product of matrices: what each element of the output sums up. */
function products(operator: string, inputs: readonly (readonly number[])[], made: number): number {
  const [first = [], second = [], ...others] = inputs;
  if (/ConvTranspose/.test(operator)) return elementCount(first) * elementCount(second.slice(1));
  if (/Conv/.test(operator)) {
    const weight = [second, ...others].find((shape) => shape.length > 2) ?? [];
    return made * elementCount(weight.slice(1));
  }
  return /MatMul|Gemm/.test(operator) ? made * (first.at(-1) ?? 1) : 0;
}

function shapesOf(shapes: Shapes = []): (readonly number[])[] {
  return shapes.flatMap((one) => Object.values(one));
}

function sizeOf(shapes: readonly (readonly number[])[]): number {
  return shapes.reduce((sum, shape) => sum + elementCount(shape), 0);
}
