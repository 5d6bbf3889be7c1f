/**
 * Converts a BigDL model to an ONNX graph. The file seldom says the shape of an input, and never the batch, so the
 * graph is built with a free batch first, and again with the given one if a module mixes the records of a batch.
 */
import { badModel, ServingError } from '../../../lib/contract/errors.ts';
import { formatShape } from '../../../lib/contract/tensor.ts';
import { BATCH, boundNote, commonBatch, withFreeBatch } from '../../graph/batch.ts';
import { GraphBuilder } from '../../graph/builder.ts';
import type { Body, Shape, Value } from '../../graph/value.ts';
import type { ConvertOptions } from '../../source/convert-options.ts';
import { readMessage } from '../../wire/binary.ts';
import { messageOf, messagesOf, plainNumbersOf, textOf } from '../../wire/message.ts';
import type { Message } from '../../wire/table.ts';
import type { Conversion } from '../conversion.ts';
import { Problems, tooManyShapes } from '../problems.ts';
import { type Activity, Call, isTable, type Job } from './call.ts';
import { readFiles } from './files.ts';
import { isKnown, ruleOf } from './layers/table.ts';
import { Module } from './module.ts';
import { MODULE } from './tables.ts';
import { readWeightFile, Storages } from './tensors.ts';

const MAX_RANK = 32;
const MAX_INPUTS = 1000;
const MAX_NOTES = 100;
const SAVE = "save it with saveModule, not with Java's serialization";

/** @throws bad_model naming every module that cannot be converted */
export async function convertBigdl(directory: string, options: ConvertOptions): Promise<Conversion> {
  const { model, weights } = await readFiles(directory);
  const message = moduleOf(model.bytes, model.name);
  const storages = new Storages(message, weights && readWeightFile(weights.bytes, weights.name));
  const root = new Module(message, storages);
  if (!/^\w+(\.\w+)+$/.test(root.type))
    throw badModel(`${model.name}: is no BigDL model (its module has no type); ${SAVE}`);
  const inputs = inputsOf(root, options, model.name);
  const build = { root, inputs, options, file: model.name };
  const { graph, notes } = built(build);
  return {
    graph,
    files: [model.name, ...(weights ? [weights.name] : [])],
    notes: notes.slice(0, MAX_NOTES),
  };
}

function moduleOf(bytes: Uint8Array, file: string): Message {
  try {
    return readMessage(bytes, MODULE, { what: file });
  } catch (error) {
    const { code, message } = ServingError.from(error);
    if (code !== 'bad_model') throw error;
    throw badModel(`${message}: the file is damaged, or no BigDL model; ${SAVE}`, { cause: error });
  }
}

interface Build {
  readonly root: Module;
  readonly inputs: readonly Input[];
  readonly options: ConvertOptions;
  readonly file: string;
}

interface Built {
  readonly graph: Body;
  readonly notes: readonly string[];
}

interface Input {
  readonly name: string;
  readonly shape: Shape;
}

/** The module below wrappers that holds the layout of the inputs. */
function core(root: Module): Module {
  let module = root;
  for (;;) {
    const [first, ...others] = module.children;
    const isWrapper = /(^|\.)(keras|internal)\.|^net\.GraphNet$/.test(module.type) && others.length === 0;
    if (!first || !isWrapper) return module;
    module = first;
  }
}

/** The inputs with their shapes, from the options or else from the file (Keras-style models). */
function inputsOf(root: Module, options: ConvertOptions, file: string): Input[] {
  const inner = core(root);
  const names = inner.type.endsWith('Graph') ? inner.texts('inputNames') : [];
  const declared = declaredShapes(root);
  const { inputShapes: given = {}, shapesInOrder: inOrder = [] } = options;
  const count = Math.max(names.length, declared.length, 1);
  if (count > MAX_INPUTS) throw badModel(`${file}: has ${count} inputs, the limit is ${MAX_INPUTS}`);
  // A table without a graph around it: the options say how many inputs there are.
  const numbered = Object.keys(given).filter((name) => /^input_\d+$/.test(name)).length;
  const said = Math.min(Math.max(numbered, inOrder.length), MAX_INPUTS);
  const total = names.length === 0 && declared.length <= 1 ? Math.max(count, said) : count;
  const isNamed =
    new Set(names).size === names.length && names.every((_, i) => givenName(inner, names[i] as string));
  const list = Array.from({ length: total }, (_, i) => ({
    name: isNamed && names[i] ? names[i] : total === 1 ? 'input' : `input_${i + 1}`,
    declared: declared[i],
  }));
  const problems = Object.keys({ ...given, ...options.constants })
    .filter((name) => !list.some((input) => input.name === name))
    .map((name) => `has no input "${name}"; its inputs are ${list.map((input) => input.name).join(', ')}`);
  if (inOrder.length > total) problems.push(tooManyShapes(list, inOrder.length));
  const inputs = list.map(({ name, declared: own }, i) => {
    const shape = (Object.hasOwn(given, name) ? given[name] : undefined) ?? own ?? inOrder[i];
    const isFull = shape?.every((dim) => typeof dim === 'string' || (Number.isSafeInteger(dim) && dim > 0));
    if (!shape || !isFull || shape.length === 0 || shape.length > MAX_RANK)
      problems.push(
        `the file does not say the shape of input "${name}"; give it with --input ${name}:<shape>, like ${name}:1,3,224,224`,
      );
    return { name, shape: shape ?? [] };
  });
  if (options.inputNames || options.outputNames)
    problems.push('a BigDL model has no names to choose inputs or outputs by; give shapes with --input');
  if (problems.length > 0) throw badModel(`${file}: ${problems.slice(0, 20).join('; ')}`);
  return inputs;
}

/** Whether it is an Input with a name by its author; other modules that begin a graph are no names for what they take. */
function givenName(graph: Module, name: string): boolean {
  return graph.children.some(
    (child) => child.name === name && child.type.endsWith('.Input') && textOf(child.message, 'name') !== '',
  );
}

function declaredShapes(root: Module): (Shape | undefined)[] {
  const shape = messageOf(root.message, 'inputShape');
  const shapes = shape
    ? [shape, ...messagesOf(shape, 'shape')].slice(messagesOf(shape, 'shape').length > 0 ? 1 : 0)
    : [];
  return shapes.map((each: Message) => {
    const dims = plainNumbersOf(each, 'shapeValue');
    return dims.length > 0 ? dims.map((dim, i) => (i === 0 && dim === -1 ? BATCH : dim)) : undefined;
  });
}

/** Tries a free batch, then the given one. */
function built(build: Build): Built {
  if (commonBatch(build.inputs.map(({ shape }) => shape)) === undefined) return run(build, false);
  const free = withFreeBatch(
    () => run(build, true),
    (error) => error instanceof Unconverted,
  );
  if (free) return free;
  const fixed = run(build, false);
  const note = boundNote(`the batch stays ${fixed.graph.inputs[0]?.shape?.[0] ?? 1}`);
  return { ...fixed, notes: [...fixed.notes, note] };
}

/** Its reasons are in the problems. */
class Unconverted extends Error {}

function run({ root, inputs, options, file }: Build, isFree: boolean): Built {
  const problems = new Problems(file);
  const notes: string[] = [];
  const g = new GraphBuilder();
  const job: Job = {
    isFree,
    version: Number.parseInt(textOf(root.message, 'version'), 10) || 0,
    note: (text) => notes.push(text),
    overwrites: overwriting(),
    run: (module, input, graph) => convertModule(module, input, graph, job, problems),
  };
  const values = inputs.map(({ name, shape }) => inputValue(g, name, withBatch(shape, isFree), options));
  try {
    const result = job.run(root, values.length === 1 ? (values[0] as Value) : values, g);
    const outputs = [...flat(result)];
    for (const [i, value] of outputs.entries())
      g.output(outputs.length === 1 ? 'output' : `output_${i + 1}`, value);
  } catch (error) {
    if (!(error instanceof Unconverted)) throw error;
    if (isFree && problems.found.length === 0) throw error;
    collectUnknown(root, problems);
    if (isFree) throw error;
    problems.throwIfAny();
  }
  return { graph: g.finish(), notes: [...notes, ...g.notes] };
}

function withBatch(shape: Shape, isFree: boolean): Shape {
  const [first] = shape;
  if (isFree) return [BATCH, ...shape.slice(1)];
  return [typeof first === 'number' ? first : 1, ...shape.slice(1)];
}

function inputValue(g: GraphBuilder, name: string, shape: Shape, { constants }: ConvertOptions): Value {
  const number = constants && Object.hasOwn(constants, name) ? constants[name] : undefined;
  if (number === undefined) return g.input(name, 'float32', shape);
  if (shape.some((dim) => typeof dim === 'string'))
    throw badModel(`input "${name}" cannot be a constant of ${formatShape(shape)}`);
  const size = shape.reduce<number>((all, dim) => all * (dim as number), 1);
  return g.floats(new Float32Array(size).fill(number), shape as readonly number[], name);
}

function* flat(activity: Activity): Generator<Value> {
  if (isTable(activity)) for (const each of activity) yield* flat(each);
  else yield activity;
}

function convertModule(
  module: Module,
  input: Activity,
  g: GraphBuilder,
  job: Job,
  problems: Problems,
): Activity {
  const rule = ruleOf(module.type);
  const made = problems.collect(module.type, module.name, () => {
    if (!rule) throw badModel(unsupported(module.type));
    try {
      const result = rule(new Call(module, input, g, job));
      module.assertRead();
      if (module.children.length === 0 && result !== input) job.overwrites(module, input);
      return result;
    } catch (error) {
      // A size of the file is over a limit of tensors.
      if (error instanceof ServingError && error.code === 'too_large')
        throw badModel(error.message, { cause: error });
      throw error;
    }
  });
  if (made === undefined) throw new Unconverted();
  return made;
}

/** Refuses a value that one module writes over and another one takes, because BigDL's answer depends on their order. */
function overwriting(): Job['overwrites'] {
  const [taken, lost] = [new Set<Value>(), new Set<Value>()];
  return (module, input) => {
    const values = [...flat(input)];
    const [first] = values;
    const isShared = module.isInPlace && !isTable(input) && first && taken.has(first);
    if (isShared || values.some((value) => lost.has(value)))
      throw badModel(
        'shares its input with a module that works in place; save the model without in-place modules',
      );
    for (const value of values) taken.add(value);
    if (module.isInPlace && first) lost.add(first);
  };
}

/** Adds the modules without a rule that the conversion did not reach, so that one error names all of them. */
function collectUnknown(root: Module, problems: Problems): void {
  const found = new Set(problems.found.map(({ node }) => node));
  const open = [root];
  for (let module = open.pop(); module; module = open.pop()) {
    if (!isKnown(module.type) && !found.has(module.name))
      problems.add(module.type, module.name, unsupported(module.type));
    found.add(module.name);
    open.push(...module.children, ...module.held());
  }
}

function unsupported(type: string): string {
  return type.startsWith('nn.quantized.')
    ? 'is not supported: its answers depend on how BigDL quantizes each input; import the model as it was before quantize()'
    : 'is not supported';
}
