/** Finds in an ONNX graph what it computes with pixels before anything else: a scale, a mean, or both. */
import { bytesOf, messageOf, messagesOf, numberOf, textOf, textsOf } from '../wire/message.ts';
import type { Message } from '../wire/table.ts';
import { elementsOf } from './elements.ts';
import { constantsOf } from './facts.ts';

export interface Rescaling {
  /** The largest value of a pixel that goes in. */
  readonly most: 255 | 1;
  /** What is computed of a pixel x, with the numbers of the first channel. */
  readonly text: string;
}

const PASSING = new Set(['Cast', 'Identity', 'Transpose']);
const FLOAT = 1;
/** Pixels end here after they were rescaled: at most 3 in published nets. */
const MOST_AFTER = 10;
const MAX_STEPS = 12;
/** Three numbers. */
const MOST_BYTES = 12;

/** Undefined when the graph does not rescale this input, or not in a way that shows what goes in. */
export function rescalingOf(model: Message, input: string): Rescaling | undefined {
  const graph = messageOf(model, 'graph');
  if (!graph) return undefined;
  const nodes = messagesOf(graph, 'nodes');
  // One number, or one for each channel.
  const numbers = constantsOf(graph).map(([name, constant]) => [name, floatsOf(constant)] as const);
  const constants = new Map(numbers.filter(([, list]) => list.length === 1 || list.length === 3));
  let [at, factor, offset] = [input, 1, 0];
  for (let step = 0; step < MAX_STEPS; step++) {
    const users = nodes.filter((node) => textsOf(node, 'inputs').includes(at));
    const [node] = users;
    if (!node || users.length > 1) break;
    const operator = textOf(node, 'operator');
    if (!PASSING.has(operator)) {
      const [left = '', right = ''] = textsOf(node, 'inputs');
      const [by] = constants.get(left === at ? right : left) ?? [];
      if (by === undefined) break;
      if (operator === 'Mul') [factor, offset] = [factor * by, offset * by];
      else if (operator === 'Div' && left === at) [factor, offset] = [factor / by, offset / by];
      else if (operator === 'Add') offset += by;
      else if (operator === 'Sub' && left === at) offset -= by;
      else break;
    }
    at = textsOf(node, 'outputs')[0] ?? '';
  }
  const most = rangeOf(factor, offset);
  const shown = (value: number) => String(Number(value.toPrecision(4)));
  const sum = offset === 0 ? '' : ` ${offset < 0 ? '−' : '+'} ${shown(Math.abs(offset))}`;
  return most && { most, text: `x × ${shown(factor)}${sum}` };
}

/** Of pixels that end near 1, or that lose a mean which only pixels up to 255 have. */
function rangeOf(factor: number, offset: number): 255 | 1 | undefined {
  const isSmall = (most: number) => Math.abs(factor * most + offset) <= MOST_AFTER && factor * most > 0.4;
  if (factor !== 1 && isSmall(255)) return 255;
  if (factor === 1) return offset < -50 && offset > -200 ? 255 : undefined;
  return factor > 1 && offset < 0 && isSmall(1) ? 1 : undefined;
}

/** The numbers of a constant. A list longer than one number for each channel is not read: it rescales nothing. */
function floatsOf(tensor: Message): readonly number[] {
  if (numberOf(tensor, 'type') !== FLOAT || bytesOf(tensor, 'raw').length > MOST_BYTES) return [];
  return Array.from(elementsOf(tensor) ?? [], Number);
}
