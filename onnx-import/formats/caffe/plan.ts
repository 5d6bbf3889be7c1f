/**
 * Selects and connects the layers that compute a net's outputs, without those for training. A name does not identify
 * a value, because an in-place layer overwrites its bottom, so connections are resolved once, in the order of the
 * file.
 */
import { badModel } from '../../../lib/contract/errors.ts';
import type { ConvertOptions } from '../../source/convert-options.ts';
import type { ImageNumbers } from '../conversion.ts';
import { dataShape, imageNumbers, isDataLayer, preparation } from './data-layers.ts';
import { layerOf } from './layers/table.ts';
import type { Layer, Net } from './net.ts';

/** Layers that inference does not need: metrics and losses. */
const TRAINING =
  /^(Accuracy|DetectionEvaluate|HDF5Output|BoxAnnotatorOHEM|BoxAnnotator|MultiBoxLoss)$|Loss(OHEM)?$/;
const SOFTMAX_LOSS = 'SoftmaxWithLoss';
/** The largest nets we know have about 20. */
const MAX_OUTPUTS = 1000;
/** Layers that need no input. */
const SOURCES: ReadonlySet<string> = new Set(['Parameter', 'Silence']);

/** A blob as one layer, or the graph's input, produced it. */
export interface Made {
  readonly name: string;
  /** The layer, or undefined for an input of the graph. */
  readonly by: Step | undefined;
}

export interface Step {
  readonly layer: Layer;
  readonly bottoms: readonly Made[];
  readonly tops: readonly Made[];
}

interface PlannedInput {
  readonly made: Made;
  /** As given in the file. */
  readonly shape: readonly number[] | undefined;
}

export interface Plan {
  readonly inputs: readonly PlannedInput[];
  /** The steps that the outputs need, in order. */
  readonly steps: readonly Step[];
  readonly outputs: readonly Made[];
  readonly notes: readonly string[];
  /** What data layers do with pixels, by input; absent when they do nothing. */
  readonly numbers?: Readonly<Record<string, ImageNumbers>>;
}

interface Connected {
  readonly inputs: readonly PlannedInput[];
  readonly steps: readonly Step[];
  /** The final blob of each name. */
  readonly last: ReadonlyMap<string, Made>;
  /** Labels, and blobs computed from labels alone. */
  readonly labels: ReadonlySet<Made>;
}

/** @throws bad_model for inputs without a producer, unknown names in the options, and a net without outputs */
export function planNet(net: Net, options: ConvertOptions, file: string): Plan {
  const connected = new Connector(net, options, file).run();
  const notes = [...net.notes];
  const { kept, consumed } = withoutTraining(connected, notes);
  const outputs = wantedOutputs(connected, kept, consumed, options, file);
  const steps = neededFor(outputs, kept);
  const used = new Set(steps.flatMap((step) => step.bottoms));
  const inputs = connected.inputs.filter(({ made }) => used.has(made));
  const numbers = new Map<string, ImageNumbers>();
  for (const layer of net.layers) {
    const isUsed = isDataLayer(layer.type) && inputs.some(({ made }) => layer.tops.includes(made.name));
    const note = isUsed ? preparation(layer) : undefined;
    if (note !== undefined) notes.push(note);
    const own = isUsed ? imageNumbers(layer) : undefined;
    if (own !== undefined) for (const top of layer.tops.slice(0, 1)) numbers.set(top, own);
  }
  return { inputs, steps, outputs, notes, ...(numbers.size > 0 && { numbers: Object.fromEntries(numbers) }) };
}

/** Resolves each name to the latest blob of that name. */
class Connector {
  readonly #net: Net;
  readonly #file: string;
  /** The input names in the options. A name that no earlier layer produces is taken for a missing input. */
  readonly #named: readonly string[];
  readonly #inputs: PlannedInput[] = [];
  readonly #current = new Map<string, Made>();
  readonly #labels = new Set<Made>();
  readonly #missing: string[] = [];
  /** The names in the options that the file does not contain. */
  readonly #spare: string[];

  constructor(net: Net, options: ConvertOptions, file: string) {
    this.#net = net;
    this.#file = file;
    const { inputNames = [], inputShapes = {} } = options;
    this.#named = [...new Set([...inputNames, ...Object.keys(inputShapes)])];
    const known = new Set([
      ...net.inputs.map(({ name }) => name),
      ...net.layers.flatMap(({ tops, bottoms }) => [...tops, ...bottoms]),
    ]);
    this.#spare = this.#named.filter((name) => !known.has(name));
  }

  run(): Connected {
    const cuts = this.#cuts();
    for (const { name, shape } of this.#net.inputs) this.#input(name, shape);
    for (const name of cuts) this.#input(name, undefined);
    const steps: Step[] = [];
    for (const layer of this.#net.layers) {
      const isCut = layer.tops.length > 0 && layer.tops.every((top) => cuts.has(top));
      if (isCut) continue;
      if (isDataLayer(layer.type)) this.#data(layer);
      else steps.push(this.#step(layer, cuts));
    }
    if (this.#missing.length > 0)
      throw badModel(`${this.#file}: ${[...new Set(this.#missing)].slice(0, 20).join('; ')}`);
    if (this.#spare.length > 0) {
      const names = this.#inputs.map(({ made }) => made.name).join(', ');
      throw badModel(
        `${this.#file}: has no input or blob "${this.#spare.join('", "')}"; its inputs are ${names}`,
      );
    }
    return { inputs: this.#inputs, steps, last: this.#current, labels: this.#labels };
  }

  /** The blobs that the options turn into inputs; their producers are left out. */
  #cuts(): ReadonlySet<string> {
    const data = new Set(this.#net.inputs.map(({ name }) => name));
    const made = new Set<string>();
    for (const { type, tops } of this.#net.layers)
      for (const top of tops) (isDataLayer(type) ? data : made).add(top);
    return new Set(this.#named.filter((name) => made.has(name) && !data.has(name)));
  }

  #input(name: string, shape: readonly number[] | undefined): Made {
    const made = { name, by: undefined };
    this.#inputs.push({ made, shape });
    this.#current.set(name, made);
    return made;
  }

  #data(layer: Layer): void {
    for (const [i, top] of layer.tops.entries()) {
      const made = this.#input(top, dataShape(layer, i));
      if (layer.type !== 'Input' && layer.type !== 'DummyData' && i > 0) this.#labels.add(made);
    }
  }

  #step(layer: Layer, cuts: ReadonlySet<string>): Step {
    const bottoms = layer.bottoms.map((bottom) => this.#taken(bottom, layer));
    if (bottoms.length === 0 && layerOf(layer.type) && !SOURCES.has(layer.type))
      bottoms.push(this.#implicit(layer));
    const tops: Made[] = [];
    const step = { layer, bottoms, tops };
    const isLabel = bottoms.length > 0 && bottoms.every((bottom) => this.#labels.has(bottom));
    for (const name of layer.tops) {
      const made = { name, by: step };
      tops.push(made);
      if (!cuts.has(name)) this.#current.set(name, made);
      if (isLabel) this.#labels.add(made);
    }
    return step;
  }

  #taken(bottom: string, layer: Layer): Made {
    const made = this.#current.get(bottom);
    if (made) return made;
    if (!this.#named.includes(bottom))
      this.#missing.push(
        `layer "${layer.name}" (${layer.type}) takes "${bottom}", which nothing before it makes; make it an input with --input ${bottom}:<shape>, like ${bottom}:1,3,224,224`,
      );
    return this.#input(bottom, undefined);
  }

  /** BigDL saves nets whose first layers have no bottoms. */
  #implicit(layer: Layer): Made {
    const name = this.#spare.shift();
    if (name === undefined)
      this.#missing.push(
        `layer "${layer.name}" (${layer.type}) has no input, and the file declares none for it (BigDL saves such files); give it with --input data:<shape>, like data:1,3,224,224`,
      );
    return this.#input(name ?? '', undefined);
  }
}

/** Drops losses and metrics from the end backwards; a softmax loss at the end becomes a softmax. */
function withoutTraining({ steps, labels }: Connected, notes: string[]) {
  const kept: Step[] = [];
  const consumed = new Set<Made>();
  const all = new Set(steps.flatMap((step) => step.bottoms));
  const softened = new Set(
    steps.flatMap(({ layer, bottoms: [first] }) => (layer.type === 'Softmax' && first ? [first] : [])),
  );
  for (const step of steps.toReversed()) {
    const { layer, bottoms, tops } = step;
    const isWanted = tops.some((top) => consumed.has(top));
    const isLabels =
      bottoms.length > 0 && tops.some((top) => all.has(top)) && tops.every((top) => labels.has(top));
    if (isWanted || !(TRAINING.test(layer.type) || isLabels)) {
      kept.push(step);
      for (const bottom of bottoms) consumed.add(bottom);
      continue;
    }
    const softmax = layer.type === SOFTMAX_LOSS ? softmaxOf(step, softened) : undefined;
    if (softmax) {
      kept.push(softmax);
      consumed.add(softmax.bottoms[0] as Made);
      notes.push(`layer "${layer.name}" (${layer.type}) is for training; it became a Softmax`);
    } else notes.push(`layer "${layer.name}" (${layer.type}) is for training and was left out`);
  }
  return { kept: kept.reverse(), consumed };
}

/** Returns undefined when the net already has a softmax of the same values. */
function softmaxOf({ layer, bottoms, tops }: Step, softened: ReadonlySet<Made>): Step | undefined {
  const [logits] = bottoms;
  if (!logits || softened.has(logits)) return undefined;
  const name = (tops[1] ?? tops[0])?.name ?? layer.name;
  const made: Made[] = [];
  const step = { layer: { ...layer, type: 'Softmax', tops: [name] }, bottoms: [logits], tops: made };
  made.push({ name, by: step });
  return step;
}

function wantedOutputs(
  { inputs, last }: Connected,
  kept: readonly Step[],
  consumed: ReadonlySet<Made>,
  { outputNames }: ConvertOptions,
  file: string,
): Made[] {
  const free = kept.flatMap((step) => step.tops).filter((top) => !consumed.has(top));
  if (free.length > MAX_OUTPUTS)
    throw badModel(`${file}: ${free.length} outputs, the limit is ${MAX_OUTPUTS}`);
  if (outputNames === undefined) {
    if (free.length > 0) return free;
    // Some deploy nets silence their output, for a program that reads it by name.
    const silenced = kept.flatMap(({ layer, bottoms }) => (layer.type === 'Silence' ? bottoms : []));
    const answers = silenced.filter(({ by }) => by !== undefined);
    if (answers.length > 0) return answers;
    throw badModel(`${file}: has no output: every blob is taken by another layer`);
  }
  const isInput = new Set(inputs.map(({ made }) => made));
  const unknown: string[] = [];
  const made = outputNames.flatMap((name) => {
    const found = free.find((top) => top.name === name) ?? last.get(name);
    if (found && !isInput.has(found)) return [found];
    unknown.push(name);
    return [];
  });
  if (unknown.length === 0) return made;
  throw badModel(
    `${file}: has no blob "${unknown.join('", "')}" to put out; its outputs are ${free.map(({ name }) => name).join(', ')}`,
  );
}

function neededFor(outputs: readonly Made[], kept: readonly Step[]): Step[] {
  const needed = new Set<Step>();
  const open = outputs.map(({ by }) => by);
  for (let step = open.pop(); open.length > 0 || step; step = open.pop()) {
    if (!step || needed.has(step)) continue;
    needed.add(step);
    for (const { by } of step.bottoms) open.push(by);
  }
  return kept.filter((step) => needed.has(step));
}
