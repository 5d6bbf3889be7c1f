/**
 * Converts a Caffe net (prototxt) and its weights (caffemodel) to an ONNX graph. The batch in a deploy net (`dim:
 * 10`) is arbitrary, so the graph is built with a free batch first, and again with the declared one if a layer mixes
 * the records of a batch.
 */
import { badModel } from '../../../lib/contract/errors.ts';
import { elementCount, formatShape } from '../../../lib/contract/tensor.ts';
import { BATCH, boundNote, commonBatch, withFreeBatch } from '../../graph/batch.ts';
import { GraphBuilder } from '../../graph/builder.ts';
import { tensorOf } from '../../graph/numbers.ts';
import type { Body, Shape, Value } from '../../graph/value.ts';
import type { ConvertOptions } from '../../source/convert-options.ts';
import type { Conversion, ImageProposal } from '../conversion.ts';
import { Problems } from '../problems.ts';
import { readFiles } from './files.ts';
import { layerOf } from './layers/table.ts';
import { type Layer, type Net, readNet } from './net.ts';
import { LayerNode, type NetState } from './node.ts';
import { type Made, type Plan, planNet, type Step } from './plan.ts';
import { type Blob, readWeights, type Weights } from './weights.ts';

/** Caffe's limit for the elements of one blob. */
const MAX_ELEMENTS = 2 ** 31 - 1;
const MAX_RANK = 32;
const MAX_NOTES = 100;

/** @throws bad_model naming every layer that cannot be converted */
export async function convertCaffe(directory: string, options: ConvertOptions): Promise<Conversion> {
  const files = await readFiles(directory);
  const net = readNet(files.net.text, files.net.name);
  const weights = files.weights && readWeights(files.weights.bytes, files.weights.name);
  const plan = planNet(net, options, files.net.name);
  const shapes = inputShapes(plan, options, files.net.name);
  const blobsOf = blobFinder(net, weights);
  const made = build({
    plan,
    shapes,
    options,
    blobsOf,
    file: files.net.name,
    hasWeights: weights !== undefined,
  });
  const names = [files.net.name, ...(files.weights ? [files.weights.name] : [])];
  const image = imageOf(made.graph, plan);
  return {
    graph: made.graph,
    files: names,
    notes: [...plan.notes, ...made.notes].slice(0, MAX_NOTES),
    ...(image ? { image } : {}),
  };
}

/** The shape of each input, from the options or else from the file. */
function inputShapes(plan: Plan, options: ConvertOptions, file: string): ReadonlyMap<Made, Shape> {
  const missing: string[] = [];
  const shapes = new Map<Made, Shape>();
  for (const { made, shape: declared } of plan.inputs) {
    const given = options.inputShapes;
    const own = given && Object.hasOwn(given, made.name) ? given[made.name] : undefined;
    const shape = own ?? declared;
    const isComplete = shape?.every(
      (dim) => typeof dim === 'string' || (Number.isSafeInteger(dim) && dim > 0),
    );
    if (!shape || !isComplete || shape.length > MAX_RANK)
      missing.push(
        `input "${made.name}" has no full shape${shape ? ` (${formatShape(shape.slice(0, MAX_RANK))})` : ''}; give it with --input ${made.name}:<shape>, like ${made.name}:1,3,224,224`,
      );
    else shapes.set(made, shape);
  }
  for (const name of Object.keys(options.constants ?? {}))
    if (!plan.inputs.some(({ made }) => made.name === name))
      missing.push(`has no input "${name}" to make constant`);
  if (missing.length > 0) throw badModel(`${file}: ${missing.slice(0, 20).join('; ')}`);
  return shapes;
}

/** The blobs of a layer, or those of the layer that it shares them with. */
function blobFinder(net: Net, weights: Weights | undefined): (layer: Layer) => readonly Blob[] {
  const shared = new Map<string, Blob>();
  for (const layer of net.layers)
    for (const [i, blob] of (weights?.get(layer.name) ?? []).entries()) {
      const name = layer.shared[i];
      if (name && !shared.has(name)) shared.set(name, blob);
    }
  return (layer) => {
    const own = weights?.get(layer.name);
    if (own) return own;
    const borrowed = layer.shared.map((name) => shared.get(name));
    return borrowed.every((blob) => blob !== undefined) ? borrowed : [];
  };
}

interface Job {
  readonly plan: Plan;
  readonly shapes: ReadonlyMap<Made, Shape>;
  readonly options: ConvertOptions;
  readonly blobsOf: (layer: Layer) => readonly Blob[];
  readonly hasWeights: boolean;
  readonly file: string;
}

interface Built {
  readonly graph: Body;
  readonly notes: readonly string[];
}

/** Tries a free batch, the declared batch and a batch of one, and returns the first that works. */
function build(job: Job): Built {
  const batch = commonBatch(job.shapes.values());
  const isCommon = batch !== undefined;
  const declared = typeof batch === 'number' ? batch : 1;
  const free = isCommon ? withFreeBatch(() => attempt(job, BATCH, declared)) : undefined;
  if (free) return free;
  const problems = new Problems(job.file);
  const fixed = new NetBuilder(job, isCommon ? declared : undefined, undefined, problems).run();
  if (problems.found.length === 0)
    return withNote(fixed, isCommon ? `the batch stays ${declared}` : 'the batch is not free');
  const single = isCommon && declared > 1 ? attempt(job, 1, undefined) : undefined;
  if (single) return withNote(single, `the batch of ${declared} became 1`);
  problems.throwIfAny();
  return fixed;
}

function withNote({ graph, notes }: Built, batch: string): Built {
  return { graph, notes: [...notes, boundNote(batch)] };
}

/** Returns undefined when a layer cannot be converted with this batch. */
function attempt(job: Job, batch: string | number, freed: number | undefined): Built | undefined {
  const problems = new Problems(job.file);
  const built = new NetBuilder(job, batch, freed, problems).run();
  return problems.found.length > 0 ? undefined : built;
}

class NetBuilder {
  readonly #job: Job;
  readonly #batch: string | number | undefined;
  readonly #problems: Problems;
  readonly #net: NetState;
  readonly #notes: string[] = [];
  readonly #values = new Map<Made, Value>();

  constructor(
    job: Job,
    batch: string | number | undefined,
    freedBatch: number | undefined,
    problems: Problems,
  ) {
    this.#job = job;
    this.#batch = batch;
    this.#problems = problems;
    this.#net = {
      g: new GraphBuilder(),
      freedBatch,
      positions: new Map(),
      blobsOf: job.blobsOf,
      hasWeights: job.hasWeights,
      note: (text) => this.#notes.push(text),
    };
  }

  run(): Built {
    const { plan } = this.#job;
    for (const { made } of plan.inputs) this.#input(made);
    for (const step of plan.steps) this.#convert(step);
    const { g } = this.#net;
    for (const made of plan.outputs) {
      const value = this.#values.get(made);
      if (value) g.output(made.name, value);
    }
    // A graph with holes is never used: its problems are thrown.
    if (this.#problems.found.length > 0) return { graph: { inputs: [], outputs: [], nodes: [] }, notes: [] };
    return { graph: this.#withoutIdle(g.finish()), notes: [...this.#notes, ...g.notes] };
  }

  /** Drops inputs of which only the size was used. */
  #withoutIdle(graph: Body): Body {
    const taken = new Set(graph.nodes.flatMap(({ inputs }) => inputs.map((input) => input?.name)));
    const inputs = graph.inputs.filter(({ name }) => taken.has(name));
    if (inputs.length === 0 || inputs.length === graph.inputs.length) return graph;
    const idle = graph.inputs.filter(({ name }) => !taken.has(name)).map(({ name }) => name);
    this.#notes.push(
      `only the size of input "${idle.join('", "')}" is used, which is fixed; it was left out`,
    );
    return { ...graph, inputs };
  }

  #input(made: Made): void {
    const { shapes, options } = this.#job;
    const own = shapes.get(made) as Shape;
    const shape = this.#batch === undefined || own.length === 0 ? own : own.with(0, this.#batch);
    const { g } = this.#net;
    const number = options.constants?.[made.name];
    const value = this.#problems.collect('Input', made.name, () => {
      checkSize(shape);
      if (number === undefined) return g.input(made.name, 'float32', shape);
      const fixed = own.map((dim) => (typeof dim === 'number' ? dim : 1));
      return g.constant(
        tensorOf('float32', fixed, new Float32Array(elementCount(fixed)).fill(number)),
        made.name,
      );
    });
    if (value) this.#values.set(made, value);
  }

  #convert({ layer, bottoms, tops }: Step): void {
    const convert = layerOf(layer.type);
    if (!convert) {
      const isPython = layer.type === 'Python';
      const reason = isPython ? 'is not supported: its code is not in the file' : 'is not supported';
      this.#problems.add(layer.type, layer.name, reason);
      return;
    }
    const inputs = bottoms.map((bottom) => this.#values.get(bottom));
    // The input comes from a layer that failed, which is reported already.
    if (!inputs.every((input) => input !== undefined)) return;
    const made = this.#problems.collect(layer.type, layer.name, () => {
      const result = convert(new LayerNode(layer, inputs, this.#net));
      const values = Array.isArray(result) ? (result as readonly Value[]) : [result as Value];
      if (values.length < tops.length)
        throw badModel(`gives ${values.length} outputs, the net names ${tops.length}`);
      for (const value of values) if (value.shape) checkSize(value.shape);
      return values;
    });
    for (const [i, top] of tops.entries()) {
      const value = made?.[i];
      if (value) this.#values.set(top, value);
    }
  }
}

function checkSize(shape: Shape): void {
  const size = shape.reduce<number>((product, dim) => (typeof dim === 'number' ? product * dim : product), 1);
  if (!(size >= 1 && size <= MAX_ELEMENTS))
    throw badModel(`a blob of ${formatShape(shape)} has ${size} elements, the limit is ${MAX_ELEMENTS}`);
}

/** Caffe reads images with OpenCV: channels first, blue before red. */
function imageOf(graph: Body, { numbers }: Plan): ImageProposal | undefined {
  for (const { shape } of graph.inputs)
    if (shape?.length === 4 && (shape[1] === 1 || shape[1] === 3))
      return { layout: 'chw', channels: shape[1] === 3 ? 'bgr' : 'grey', ...(numbers && { numbers }) };
  return undefined;
}
