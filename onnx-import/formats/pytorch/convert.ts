/**
 * Converts a PyTorch file to an ONNX graph by a symbolic run of its forward method. The batch of a given shape is
 * freed where the model allows it: if shapes or control flow need the number, the run is repeated with it.
 */
import { badModel, ServingError } from '../../../lib/contract/errors.ts';
import type { DType } from '../../../lib/contract/tensor.ts';
import { BATCH, commonBatch } from '../../graph/batch.ts';
import type { Body, Value } from '../../graph/value.ts';
import type { ConvertOptions } from '../../source/convert-options.ts';
import type { Conversion, ImageProposal } from '../conversion.ts';
import { Problems } from '../problems.ts';
import { NeedsIndex } from './aten/indexing.ts';
import { Raised } from './aten/python.ts';
import { Failed, Stopped } from './code/library.ts';
import { readProgram } from './exported.ts';
import { openTorchFile, type TorchFile } from './files/archive.ts';
import { type Given, givenInputs, type InputSpec, isSpec } from './inputs.ts';
import { outputsOf } from './outputs.ts';
import { readPickled } from './python/model.ts';
import { Context } from './run/context.ts';
import { SizeBound } from './run/sizes.ts';
import { Dict, itemsOf, type Py } from './run/values.ts';
import { type Runnable, readScript } from './script.ts';

/** @throws bad_model naming every operator that cannot be converted, or what the file is instead of a model */
export async function convertPytorch(
  directory: string,
  name: string,
  options: ConvertOptions,
): Promise<Conversion> {
  const file = await openTorchFile(directory, name);
  const conversion = convertFile(runnable(file), options, name);
  return { ...conversion, files: [name] };
}

function runnable(file: TorchFile): Runnable {
  const { script, program } = file;
  if (program) return readProgram(program, file.name);
  return script ? readScript({ ...file, script }) : readPickled(file);
}

function convertFile(model: Runnable, options: ConvertOptions, file: string): Omit<Conversion, 'files'> {
  const given = givenInputs(model.parameters, options, file);
  const freed = withBatch(given);
  const types = new Map<string, DType>();
  for (const shapes of [...(freed ? [freed] : []), given]) {
    const outcome = typed(model, shapes, types, options, file);
    if (outcome instanceof SizeBound) {
      if (shapes === given)
        throw badModel(
          `${file}: ${outcome.message}, which is free; give every size of the inputs with --input`,
        );
      continue;
    }
    const { graph, notes } = outcome;
    const fixed =
      freed && shapes === given
        ? [`the batch is fixed to what --input says: the model's code needs its number`]
        : [];
    const image = imageOf(graph.inputs);
    return { graph, notes: [...notes, ...fixed], ...(image ? { image } : {}) };
  }
  throw new ServingError('internal', 'no attempt was made');
}

/** The inputs with a free batch, if they have one in common. */
function withBatch(given: readonly Given[]): Given[] | undefined {
  const specs = given.filter(isSpec);
  if (specs.some(({ isOfFile }) => isOfFile === true)) return undefined;
  const batch = commonBatch(specs.map(({ shape }) => shape));
  const isTaken = specs.some(({ shape }) => shape.includes(BATCH));
  if (typeof batch !== 'number' || isTaken) return undefined;
  return given.map((each) => (isSpec(each) ? { ...each, shape: each.shape.with(0, BATCH) } : each));
}

interface Outcome {
  readonly graph: Body;
  readonly notes: readonly string[];
}

/** An input that is used as an index, and of which the options say no type, is int64. */
function typed(
  model: Runnable,
  given: readonly Given[],
  types: Map<string, DType>,
  options: ConvertOptions,
  file: string,
): Outcome | SizeBound {
  for (let i = 0; i <= given.length; i++)
    try {
      return attempt(model, given, types, options, file);
    } catch (error) {
      if (error instanceof SizeBound) return error;
      if (!(error instanceof NeedsIndex)) throw error;
      const open = given.filter(isSpec).filter((spec) => spec.dtype === undefined && !types.has(spec.name));
      const found =
        open.find(({ name }) => name === error.input) ?? (open.length === 1 ? open[0] : undefined);
      if (!found)
        throw badModel(
          `${file}: the model takes float32 where it needs whole numbers; say which inputs are whole, like --input ${open[0]?.name ?? 'x'}:int64,1,16`,
        );
      types.set(found.name, 'int64');
    }
  throw badModel(`${file}: the types of the inputs are not found; give them with --input`);
}

function attempt(
  model: Runnable,
  given: readonly Given[],
  types: ReadonlyMap<string, DType>,
  options: ConvertOptions,
  file: string,
): Outcome {
  const c = new Context();
  const problems = new Problems(file);
  const args = given.map((each) => argument(c, each, types));
  const run = model.run(c, problems, args);
  const outputs = guarded(file, problems, run.position, () => {
    const result = run.result();
    return hasFailed(result) ? [] : outputsOf(c, result, options.outputNames);
  });
  problems.throwIfAny();
  for (const { name, value } of outputs) c.root.output(name, value);
  return { graph: c.root.finish(), notes: [...c.notes, ...c.root.notes] };
}

function argument(c: Context, given: Given, types: ReadonlyMap<string, DType>): Py | undefined {
  if (given === undefined) return undefined;
  if (!isSpec(given)) return given.value;
  return c.tensor(inputValue(c, given, types));
}

function inputValue(c: Context, { name, shape, dtype }: InputSpec, types: ReadonlyMap<string, DType>): Value {
  const value = c.root.input(name, dtype ?? types.get(name) ?? 'float32', shape);
  for (const [axis, dim] of shape.entries()) if (typeof dim === 'string') c.sizes.of(dim, value, axis);
  return value;
}

function hasFailed(value: Py): boolean {
  const items = value instanceof Dict ? [...value.items.values()] : itemsOf(value);
  return value instanceof Failed || (items?.some(hasFailed) ?? false);
}

/** Errors of the model's code become problems of the place where they came up. */
function guarded<T>(
  file: string,
  problems: Problems,
  position: () => string,
  run: () => readonly T[],
): readonly T[] {
  try {
    return run();
  } catch (error) {
    if (error instanceof Stopped && problems.found.length > 0) return [];
    if (error instanceof Raised)
      throw badModel(
        `${file}: the model raises an error for inputs of these shapes (${position()}): ${error.message}`,
      );
    if (error instanceof ServingError && error.code === 'bad_model') {
      problems.add('code', position(), error.message);
      return [];
    }
    if (error instanceof RangeError)
      throw badModel(`${file}: the model's code is nested too deep`, { cause: error });
    throw error;
  }
}

/** Models of torchvision take red first. */
function imageOf(inputs: readonly Value[]): ImageProposal | undefined {
  const [image] = inputs;
  if (inputs.length !== 1 || image?.dtype !== 'float32' || image.shape?.length !== 4) return undefined;
  const channels = image.shape[1];
  if (channels !== 1 && channels !== 3) return undefined;
  return { layout: 'chw', channels: channels === 3 ? 'rgb' : 'grey' };
}
