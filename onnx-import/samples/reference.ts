/**
 * Compares a model's outputs with a reference: a directory of .npy files (in*.npy, out*.npy), or an .npz with the
 * same names. File names cannot hold tensor names such as `conv1/Relu:0`, so names match if their letters and digits
 * do.
 */
import { readdir, readFile, stat } from 'node:fs/promises';
import { join } from 'node:path';
import { badModel, ServingError } from '../../lib/contract/errors.ts';
import { formatShape, type Tensor } from '../../lib/contract/tensor.ts';
import type { TensorSpec } from '../../lib/contract/values.ts';
import type { Session } from '../../lib/inference/session.ts';
import { unreadable } from '../../lib/registry/onnx-file.ts';
import { readNpy, readNpz } from '../files/npy.ts';
import { compare, type Tolerance } from './compare.ts';

interface References {
  /** By the part of the file name after `in`: `_data`, `0`, or nothing. */
  readonly inputs: ReadonlyMap<string, Tensor>;
  readonly outputs: ReadonlyMap<string, Tensor>;
}

export interface ReferenceReport {
  readonly agrees: boolean;
  readonly tolerance: Tolerance;
  readonly outputs: readonly {
    readonly name: string;
    readonly agrees: boolean;
    /** Null if a number is not finite, or the shapes differ. */
    readonly maxError: number | null;
    readonly problem?: string;
  }[];
}

const MAX_FILES = 200;

/** @throws bad_model when there are no inputs or no outputs */
export async function referenceTensors(path: string): Promise<References> {
  const tensors = await readTensors(path);
  const side = (prefix: RegExp) =>
    new Map(
      [...tensors].filter(([name]) => prefix.test(name)).map(([name, t]) => [name.replace(prefix, ''), t]),
    );
  // `in_x`, `in0`, `in`, and not `index`.
  const references = { inputs: side(/^in(put)?(?=[_\d]|$)/), outputs: side(/^out(put)?(?=[_\d]|$)/) };
  if (references.inputs.size > 0 && references.outputs.size > 0) return references;
  const found = [...tensors.keys()].join(', ') || 'none';
  throw bad(`${path}: expected in.npy and out.npy, or in_<input>.npy and out_<output>.npy; found ${found}`);
}

async function readTensors(path: string): Promise<Map<string, Tensor>> {
  try {
    if (!(await stat(path)).isDirectory()) return readNpz(await readFile(path), path);
    const names = (await readdir(path)).filter((name) => name.endsWith('.npy')).sort();
    if (names.length > MAX_FILES)
      throw bad(`${path}: ${names.length} files are over the limit of ${MAX_FILES}`);
    const tensors = new Map<string, Tensor>();
    for (const name of names) {
      tensors.set(name.slice(0, -'.npy'.length), readNpy(await readFile(join(path, name)), name));
    }
    return tensors;
  } catch (error) {
    if (error instanceof ServingError) throw error;
    throw bad(`${path} cannot be read: ${unreadable(error, path)}`, error);
  }
}

/** @throws bad_model when a file matches no input or output, or an input has no file */
export async function runReference(
  session: Session,
  { inputs, outputs }: References,
  tolerance: Tolerance,
  shapeless: readonly string[],
): Promise<{ readonly report: ReferenceReport; readonly feeds: readonly Tensor[] }> {
  const { found: given, unmatched } = matched(inputs, session.inputs);
  const missing = session.inputs.filter(({ name }) => !given.has(name));
  // An extra input file alone is one that the import replaced by a constant. With a missing input, it is a misspelled
  // name.
  if (missing.length > 0 && unmatched.length > 0) throw unknownFile(unmatched, session.inputs, 'input');
  if (missing.length > 0) {
    throw bad(`no file for ${missing.map(({ name }) => `input "${name}"`).join(', ')} among in*.npy`);
  }
  const feeds = session.inputs.map((spec) =>
    fitted(spec, given.get(spec.name) as Tensor, shapeless.includes(spec.name)),
  );
  const produced = await runOn(session, feeds);
  const { found: wanted, unmatched: others } = matched(outputs, session.outputs);
  if (others.length > 0) throw unknownFile(others, session.outputs, 'output');
  const compared = produced
    .filter(({ name }) => wanted.has(name))
    .map((actual) => {
      const expected = wanted.get(actual.name) as Tensor;
      const { agrees, maxError } = compare(actual, expected, tolerance);
      const isShaped = sizesOf(actual) === sizesOf(expected);
      const problem = `shape ${formatShape(actual.shape)}, expected ${formatShape(expected.shape)}`;
      const differs = { name: actual.name, agrees: false, maxError: null, problem };
      return isShaped ? { name: actual.name, agrees, maxError } : differs;
    });
  return { feeds, report: { agrees: compared.every(({ agrees }) => agrees), tolerance, outputs: compared } };
}

async function runOn(session: Session, feeds: readonly Tensor[]) {
  try {
    return await session.run(feeds);
  } catch (error) {
    throw bad(`the model does not run on its inputs: ${messageOf(error)}`, error);
  }
}

/** Dimensions of 1 are ignored, because a reference may lack the batch. */
function sizesOf({ shape }: Tensor): string {
  return shape.filter((dim) => dim !== 1).join();
}

interface Matched {
  readonly found: ReadonlyMap<string, Tensor>;
  /** Files without a match. */
  readonly unmatched: readonly string[];
}

/** Matches by name, then by position; a single file matches a single input. */
export function matched(files: ReadonlyMap<string, Tensor>, specs: readonly TensorSpec[]): Matched {
  const byName = new Map(specs.map((spec) => [letters(spec.name), spec.name]));
  const found = new Map<string, Tensor>();
  const unmatched: string[] = [];
  for (const [file, tensor] of files) {
    const position = /^_?(\d*)$/.exec(file)?.[1];
    const name =
      byName.get(letters(file)) ??
      // An output that got a suffix because an input has its name.
      byName.get(letters(`${file}_output`)) ??
      (position === undefined ? undefined : specs[Number(position || 0)]?.name) ??
      (files.size === 1 && specs.length === 1 ? specs[0]?.name : undefined);
    if (name === undefined) unmatched.push(file.replace(/^_/, ''));
    else found.set(name, tensor);
  }
  return { found, unmatched };
}

function unknownFile(files: readonly string[], specs: readonly TensorSpec[], side: string): ServingError {
  const names = specs.map((spec) => spec.name).join(', ');
  return bad(`"${files.join('", "')}" is not an ${side} of the model; its ${side}s: ${names}`);
}

function letters(name: string): string {
  return name
    .replace(/:0$/, '')
    .replaceAll(/[^a-z0-9]/gi, '')
    .toLowerCase();
}

/**
 * Requires the dtype and shape of the input, except that the batch of one and a last dimension of one may be missing.
 * An input without a shape takes any.
 */
function fitted(spec: TensorSpec, tensor: Tensor, isShapeless: boolean): Tensor {
  if (tensor.dtype !== spec.dtype) {
    throw bad(`input "${spec.name}" is ${spec.dtype}, its reference is ${tensor.dtype}`);
  }
  if (isShapeless) return tensor;
  const { shape } = tensor;
  const fits = (candidate: readonly number[]) =>
    candidate.length === spec.shape.length &&
    candidate.every((dim, axis) => typeof spec.shape[axis] === 'string' || spec.shape[axis] === dim);
  const found = [shape, [1, ...shape], [...shape, 1]].find(fits);
  if (found) return { ...tensor, shape: found };
  const expected = formatShape(spec.shape.map((dim) => (dim === '' ? '?' : dim)));
  throw bad(`input "${spec.name}" has the shape ${expected}, its reference ${formatShape(shape)}`);
}

function bad(message: string, cause?: unknown): ServingError {
  return badModel(`reference: ${message}`, { cause });
}

/** The message in one line, without the location in onnxruntime's source. */
export function messageOf(error: unknown): string {
  const text = error instanceof Error ? error.message : String(error);
  return text
    .replace(/\/onnxruntime_src\/\S+:\d+ \S+\([^)]*\) ?/, '')
    .replaceAll(/\s+/g, ' ')
    .trim();
}
