/** Which outputs of one ONNX file are inputs of another one. */
import { badModel } from '../../../lib/contract/errors.ts';
import { dtypeIn } from '../../graph/attributes.ts';
import { has, messageOf, messagesOf, numberOf, textOf } from '../../wire/message.ts';
import type { Message } from '../../wire/table.ts';
import type { RawField } from '../rewrite/fields.ts';

export interface Port {
  readonly name: string;
  readonly dtype: string;
  /** A text is a free size, '' one without a name; undefined: not even the rank is known. */
  readonly shape: readonly (number | string)[] | undefined;
}

/** What goes into a file and comes out of it. */
export interface Ports {
  readonly file: string;
  readonly inputs: readonly Port[];
  readonly outputs: readonly Port[];
  /** Inputs that have a value in the file. */
  readonly defaults: ReadonlySet<string>;
}

/** One of the two files. */
export interface Part {
  readonly ports: Ports;
  readonly irVersion: number;
  /** Versions by domain; the standard one is ''. */
  readonly opsets: ReadonlyMap<string, number>;
  readonly fields: readonly RawField[];
  readonly graph: readonly RawField[];
}

export type Pair = readonly [output: Port, input: Port];

export function portsOf(file: string, graph: Message): Ports {
  const sparse = messagesOf(graph, 'sparses').map((item) => messageOf(item, 'values') ?? {});
  const constants = new Set([...messagesOf(graph, 'tensors'), ...sparse].map((item) => textOf(item, 'name')));
  const inputs = messagesOf(graph, 'inputs').map(portOf);
  return {
    file,
    inputs: inputs.filter(({ name }) => !constants.has(name)),
    outputs: messagesOf(graph, 'outputs').map(portOf),
    defaults: new Set(inputs.map(({ name }) => name).filter((name) => constants.has(name))),
  };
}

function portOf(value: Message): Port {
  const type = messageOf(value, 'type');
  const tensor = type && messageOf(type, 'tensor');
  const shape = tensor && messageOf(tensor, 'shape');
  return {
    name: textOf(value, 'name'),
    dtype: tensor ? (dtypeIn(numberOf(tensor, 'type')) ?? 'another type') : 'no tensor',
    shape: shape && messagesOf(shape, 'dims').map(sizeOf),
  };
}

/** -1 is how some exporters write a free size. */
function sizeOf(dimension: Message): number | string {
  const isFixed = has(dimension, 'value') && numberOf(dimension, 'value') >= 0;
  return isFixed ? numberOf(dimension, 'value') : textOf(dimension, 'name');
}

/** By their names, or the only output and the only input. @throws bad_model listing both files */
export function pairsOf(first: Ports, second: Ports): readonly Pair[] {
  const refuse = (why: string): never => {
    throw badModel(
      `${first.file} cannot run before ${second.file}: ${why}; outputs of ${first.file}: ${shown(first.outputs)}; inputs of ${second.file}: ${shown(second.inputs)}`,
    );
  };
  const fixed = first.outputs.find(({ name }) => second.defaults.has(name));
  if (fixed) refuse(`input "${fixed.name}" has a value of its own in ${second.file}`);
  const named = second.inputs.flatMap((input): Pair[] => {
    const output = first.outputs.find(({ name }) => name === input.name);
    return output ? [[output, input]] : [];
  });
  const [output, ...outputs] = first.outputs;
  const [input, ...inputs] = second.inputs;
  const isOnly = output && input && outputs.length + inputs.length === 0;
  const pairs: readonly Pair[] = named.length > 0 || !isOnly ? named : [[output, input]];
  if (pairs.length === 0)
    refuse('no output has the name of an input; export them so that an output and an input have one name');
  for (const [from, to] of pairs) {
    if (!isSame(from, to)) refuse(`output "${from.name}" is not what input "${to.name}" takes`);
  }
  assertApart(first, second, pairs);
  return pairs;
}

/** Refuses inputs of one name, which may be the same or not, and outputs that have the name of an input. */
function assertApart(first: Ports, second: Ports, pairs: readonly Pair[]): void {
  const left = second.inputs.filter((port) => pairs.every(([, input]) => input !== port));
  for (const [what, ports] of [
    ['input', left],
    ['output', second.outputs],
  ] as const) {
    const other = ports.find(({ name }) => first.inputs.some((input) => input.name === name));
    if (other)
      throw badModel(
        `${first.file} cannot run before ${second.file}: both an input of ${first.file} and an ${what} of ${second.file} are called "${other.name}"; export one of them under another name`,
      );
  }
}

function isSame(from: Port, to: Port): boolean {
  if (from.dtype !== to.dtype || dtypes.has(from.dtype)) return false;
  if (!from.shape || !to.shape) return true;
  const sizes = to.shape;
  const isFitting = (size: number | string, i: number) =>
    typeof size === 'string' || typeof sizes[i] === 'string' || size === sizes[i];
  return from.shape.length === sizes.length && from.shape.every(isFitting);
}

/** What is not passed on. */
const dtypes = new Set(['another type', 'no tensor']);

function shown(ports: readonly Port[]): string {
  const one = ({ name, dtype, shape }: Port) =>
    `${name} ${dtype}${shape ? ` [${shape.map((size) => (size === '' ? '?' : size)).join(',')}]` : ''}`;
  return ports.length > 0 ? ports.slice(0, 20).map(one).join(', ') : 'none';
}
