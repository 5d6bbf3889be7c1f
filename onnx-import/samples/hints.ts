/**
 * What a graph says of the values that its inputs take: the ranges that it quantizes, scales or compares with, the sizes
 * of its tables, and the texts that it knows. Made-up rows reach what real ones reach by it.
 */
import { elementsOf } from '../onnx/elements.ts';
import { constantsOf, readOnnx } from '../onnx/facts.ts';
import {
  has,
  messageOf,
  messagesOf,
  numberOf,
  plainNumbersOf,
  textOf,
  textsOf,
  utf8TextsOf,
} from '../wire/message.ts';
import type { Message } from '../wire/table.ts';

/** A bound for each column, or one for all. */
export interface Range {
  readonly low: readonly number[];
  readonly high: readonly number[];
  /** Places in a table: nothing beyond them is taken. */
  readonly isTable?: boolean;
}

export interface InputHints {
  readonly ranges: readonly Range[];
  readonly texts: readonly string[];
  /** The graph reads its texts as numbers. */
  readonly isNumber: boolean;
}

/** By input. */
export type Hints = Readonly<Record<string, InputHints>>;

/** Of each kind. */
const MOST_RANGES = 6;
const MOST_TEXTS = 64;

/** Operators that hand on values as they are, or nearly. */
const PASSING = new Set(
  'Identity Cast CastLike Reshape Flatten Squeeze Unsqueeze Transpose Concat Slice Split Expand Tile Pad Dropout Relu Abs MaxPool AveragePool GlobalAveragePool ReduceMean ReduceMax ReduceMin StringNormalizer FeatureVectorizer ArrayFeatureExtractor Imputer'.split(
    ' ',
  ),
);
const COMPARING = new Set('Less LessOrEqual Greater GreaterOrEqual Equal Min Max Mod'.split(' '));
/** Attributes with the texts that a table knows. */
const TEXT_LISTS = ['keys_strings', 'cats_strings', 'pool_strings', 'stopwords'];
/** Element types, as ONNX numbers them. */
const [UINT8, STRING] = [2, 8];
/** The least and the largest number that a quantized type has. */
const QUANTA: Readonly<Record<number, readonly [number, number]>> = {
  2: [0, 255],
  3: [-128, 127],
  4: [0, 65_535],
  5: [-32_768, 32_767],
};
/** A value of the graph that is `scale` · input + `offset`. */
interface Reading {
  readonly input: string;
  readonly scale: number;
  readonly offset: number;
}

type Numbers = readonly number[];

/** @throws bad_model when the file is damaged */
export function hintsOf(file: string): Hints {
  const graph = messageOf(readOnnx(file), 'graph');
  return graph ? new Reader(graph).hints : {};
}

class Reader {
  readonly #constants: ReadonlyMap<string, Message>;
  readonly #readings = new Map<string, Reading>();
  readonly #hints = new Map<string, { ranges: Range[]; texts: Set<string>; isNumber: boolean }>();
  /** Of values that are not known to come from one input. */
  readonly #others: Range[] = [];

  constructor(graph: Message) {
    this.#constants = new Map(constantsOf(graph));
    for (const input of messagesOf(graph, 'inputs')) {
      const name = textOf(input, 'name');
      if (this.#constants.has(name)) continue;
      this.#readings.set(name, { input: name, scale: 1, offset: 0 });
      this.#hints.set(name, { ranges: [], texts: new Set(), isNumber: false });
    }
    this.#visit(graph);
  }

  get hints(): Hints {
    const others = distinct(this.#others);
    const entries = [...this.#hints].map(([name, { ranges, texts, isNumber }]) => {
      const own = distinct(ranges);
      const hints = { ranges: own.length > 0 ? own : others, texts: [...texts], isNumber };
      return [name, hints] as const;
    });
    return Object.fromEntries(entries);
  }

  /** Bodies of If and Loop read values of the graph around them. */
  #visit(graph: Message): void {
    for (const node of messagesOf(graph, 'nodes')) {
      this.#node(node);
      for (const attribute of messagesOf(node, 'attributes')) {
        const body = messageOf(attribute, 'graph');
        if (body) this.#visit(body);
      }
    }
  }

  #node(node: Message): void {
    const operator = textOf(node, 'operator');
    const inputs = textsOf(node, 'inputs');
    const attributes = new Map(messagesOf(node, 'attributes').map((item) => [textOf(item, 'name'), item]));
    const numbers = (at: number): Numbers => numbersOf(this.#constants.get(inputs[at] ?? ''));
    const attribute = (name: string): Numbers => numbersOf(attributes.get(name));
    const from = inputs.findIndex((name) => this.#readings.has(name));
    const reading = this.#readings.get(inputs[from] ?? '');
    const range = rangeOf({
      operator,
      from,
      numbers,
      attribute,
      tensor: (at) => this.#constants.get(inputs[at] ?? ''),
    });
    if (range) this.#add(range, reading);
    if (!reading) return;
    const found = this.#hints.get(reading.input);
    if (operator === 'Cast' && attribute('to')[0] !== STRING && found) found.isNumber = true;
    for (const name of TEXT_LISTS) {
      for (const text of attributes.has(name) ? utf8TextsOf(attributes.get(name) as Message, 'texts') : []) {
        if (found && found.texts.size < MOST_TEXTS) found.texts.add(text);
      }
    }
    const passed = passedOn(operator, reading, from, numbers(1 - from));
    if (passed) for (const output of textsOf(node, 'outputs')) this.#readings.set(output, passed);
  }

  #add(range: Range, reading: Reading | undefined): void {
    if (!reading) return void this.#others.push(range);
    const { low, high } = range;
    const back = (values: Numbers) => values.map((value) => (value - reading.offset) / reading.scale);
    const [a, b] = [back(low), back(high)];
    const sides = reading.scale < 0 ? { low: b, high: a } : { low: a, high: b };
    this.#hints.get(reading.input)?.ranges.push({ ...range, ...sides });
  }
}

/** What becomes of a reading: the operators that hand it on, and arithmetic with one constant. */
function passedOn(operator: string, reading: Reading, from: number, others: Numbers): Reading | undefined {
  if (PASSING.has(operator) || (operator === 'Gather' && from === 0)) return reading;
  const [other] = others;
  if (other === undefined || from > 1 || !Number.isFinite(other)) return undefined;
  const { scale, offset } = reading;
  if (operator === 'Add') return { ...reading, offset: offset + other };
  if (operator === 'Sub') {
    return from === 0
      ? { ...reading, offset: offset - other }
      : { ...reading, scale: -scale, offset: other - offset };
  }
  const factor = operator === 'Mul' ? other : operator === 'Div' && from === 0 ? 1 / other : 0;
  const isFactor = factor !== 0 && Number.isFinite(factor);
  return isFactor ? { ...reading, scale: scale * factor, offset: offset * factor } : undefined;
}

interface Node {
  readonly operator: string;
  /** Which input is read from the graph's; -1 for none. */
  readonly from: number;
  readonly numbers: (at: number) => Numbers;
  readonly attribute: (name: string) => Numbers;
  readonly tensor: (at: number) => Message | undefined;
}

/** The range in which a node tells values from each other. */
function rangeOf(node: Node): Range | undefined {
  const { operator, from, numbers, attribute, tensor } = node;
  if (operator === 'QuantizeLinear') return quantizedRange(node);
  if (operator === 'Clip')
    return around([...numbers(1), ...numbers(2), ...attribute('min'), ...attribute('max')]);
  if (operator === 'Scaler')
    return scaledRange(
      attribute('offset'),
      attribute('scale').map((scale) => 3 / scale),
    );
  if (operator === 'BatchNormalization') {
    return scaledRange(
      numbers(3),
      numbers(4).map((variance) => 3 * Math.sqrt(variance)),
    );
  }
  if (operator === 'Binarizer') return around(attribute('threshold'));
  if (operator === 'Gather' && from === 1)
    return upTo(plainNumbersOf(tensor(0) ?? {}, 'dims')[attribute('axis')[0] ?? 0]);
  if (operator === 'OneHot' && from === 0) return upTo(numbers(1)[0]);
  if (operator.startsWith('TreeEnsemble')) return thresholdsOf(attribute);
  const keys = [...attribute('keys_int64s'), ...attribute('keys_floats'), ...attribute('cats_int64s')];
  if (keys.length > 0) return bounds(keys);
  return COMPARING.has(operator) ? around([...numbers(0), ...numbers(1)]) : undefined;
}

function quantizedRange({ numbers, tensor, attribute }: Node): Range | undefined {
  const scale = Math.max(...numbers(1));
  const zero = numbers(2)[0] ?? 0;
  const type = tensor(2) ? numberOf(tensor(2) as Message, 'type') : (attribute('output_dtype')[0] ?? UINT8);
  const [least, most] = QUANTA[type] ?? [];
  if (least === undefined || most === undefined || !(scale > 0)) return undefined;
  return { low: [(least - zero) * scale], high: [(most - zero) * scale] };
}

/** The middle of each column, and how far it goes. */
function scaledRange(middles: Numbers, sides: Numbers): Range | undefined {
  if (middles.length === 0 || sides.length === 0) return undefined;
  const count = Math.max(middles.length, sides.length);
  const at = (values: Numbers, i: number) => values[values.length === 1 ? 0 : i] ?? 0;
  const places = Array.from({ length: count }, (_, i) => [at(middles, i), Math.abs(at(sides, i))] as const);
  return {
    low: places.map(([middle, side]) => middle - side),
    high: places.map(([middle, side]) => middle + side),
  };
}

/** By column, where the file says which it is. */
function thresholdsOf(attribute: Node['attribute']): Range | undefined {
  const values = [...attribute('nodes_values'), ...attribute('nodes_splits')];
  const columns = attribute('nodes_featureids');
  if (columns.length !== values.length) return bounds(values);
  const byColumn = new Map<number, number[]>();
  for (const [at, column] of columns.entries()) {
    const own = byColumn.get(column) ?? [];
    byColumn.set(column, own);
    own.push(values[at] as number);
  }
  const ranges = Array.from({ length: Math.max(0, ...byColumn.keys()) + 1 }, (_, column) =>
    bounds(byColumn.get(column) ?? [0]),
  );
  return { low: ranges.map((range) => range?.low[0] ?? 0), high: ranges.map((range) => range?.high[0] ?? 0) };
}

/** All of them, and a little beyond. */
function bounds(values: Numbers): Range | undefined {
  const finite = values.filter(Number.isFinite);
  if (finite.length === 0) return undefined;
  const [least, most] = [finite.reduce((a, b) => Math.min(a, b)), finite.reduce((a, b) => Math.max(a, b))];
  const beyond = most > least ? (most - least) / 8 : 0;
  return { low: [least - beyond], high: [most + beyond] };
}

/** On both sides of what values are compared with. */
function around(values: Numbers): Range | undefined {
  const range = bounds(values);
  if (!range) return undefined;
  const side = Math.max(1, Math.abs(range.low[0] as number), Math.abs(range.high[0] as number)) / 2;
  return { low: [(range.low[0] as number) - side], high: [(range.high[0] as number) + side] };
}

function upTo(size: number | undefined): Range | undefined {
  return size === undefined || !(size > 0) ? undefined : { low: [0], high: [size - 1], isTable: true };
}

function distinct(ranges: readonly Range[]): readonly Range[] {
  const isUsable = ({ low, high }: Range) => [...low, ...high].every(Number.isFinite);
  const byText = new Map(ranges.filter(isUsable).map((range) => [JSON.stringify(range), range]));
  return [...byText.values()].slice(0, MOST_RANGES);
}

/** The numbers of a tensor or an attribute, as far as the file was read. */
function numbersOf(message: Message | undefined): Numbers {
  if (!message) return [];
  const tensor = has(message, 'type') ? message : messageOf(message, 'tensor');
  if (tensor) return Array.from(elementsOf(tensor) ?? [], Number);
  const listed = ['floats', 'ints'].flatMap((name) => plainNumbersOf(message, name));
  if (listed.length > 0) return listed;
  return ['float', 'int'].filter((name) => has(message, name)).map((name) => numberOf(message, name));
}
