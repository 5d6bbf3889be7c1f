/** The prior boxes of single-shot detection. They are constants, because the sizes they come from are known. */
import { badModel } from '../../../../lib/contract/errors.ts';
import { constantNumbers } from '../../../graph/numbers.ts';
import { fixed } from '../../../graph/shapes.ts';
import type { Value } from '../../../graph/value.ts';
import type { OpTable, OvNode, Rule } from '../node.ts';

const MAX_NUMBERS = 16_000_000;

/** Height and width of the maps and of the image: the values of two inputs, before version 10 their sizes. */
function planes(node: OvNode): readonly [number, number, number, number] {
  const of = (i: number) =>
    node.net.version >= 10
      ? constantNumbers(node.input(i), 'size of a map')
      : [fixed(node.input(i), 2), fixed(node.input(i), 3)];
  return [...of(0), ...of(1)] as unknown as readonly [number, number, number, number];
}

/** Widths and heights in pixels of the priors of a cell, with the shifts of their centers in pixels. */
function* priorsOf(node: OvNode): Generator<readonly [number, number]> {
  const least = node.numbers('min_size', []);
  const most = node.numbers('max_size', []);
  const ratios = ratiosOf(node);
  const isOrdered = node.flag('min_max_aspect_ratios_order', true);
  for (const [i, size] of least.entries()) {
    yield [size, size];
    const middle = most[i] === undefined ? [] : [Math.sqrt(size * most[i])];
    const others = ratios.map((ratio): [number, number] => [
      size * Math.sqrt(ratio),
      size / Math.sqrt(ratio),
    ]);
    const squares = middle.map((side): [number, number] => [side, side]);
    yield* isOrdered ? [...squares, ...others] : [...others, ...squares];
  }
}

/** Without 1 and without repetitions; each with its inverse where `flip` is set. */
function ratiosOf(node: OvNode): number[] {
  const ratios = [1];
  for (const ratio of node.numbers('aspect_ratio', [])) {
    if (ratio <= 0) throw badModel(`has an aspect ratio of ${ratio}`);
    if (ratios.some((other) => Math.abs(ratio - other) < 1e-6)) continue;
    ratios.push(ratio);
    if (node.flag('flip', false)) ratios.push(1 / ratio);
  }
  return ratios.slice(1);
}

const priorBox: Rule = (node) => {
  const [height, width, imageHeight, imageWidth] = planes(node);
  for (const name of ['fixed_size', 'fixed_ratio', 'density'])
    if (node.numbers(name, []).length > 0) throw badModel(`${name} is not supported`);
  if (!node.flag('scale_all_sizes', true)) throw badModel('scale_all_sizes false is not supported');
  node.ignore('min_max_aspect_ratios_order', 'flip', 'aspect_ratio');
  const step = node.number('step', 0);
  if (node.number('step_w', 0) !== 0 || node.number('step_h', 0) !== 0)
    throw badModel('step_w and step_h are not supported');
  for (const name of ['img_size', 'img_h', 'img_w'])
    if (node.number(name, 0) !== 0) throw badModel(`${name} is not supported`);
  const [stepY, stepX] = step === 0 ? [imageHeight / height, imageWidth / width] : [step, step];
  const offset = node.number('offset', 0.5);
  const sizes = [...priorsOf(node)];
  const at = (x: number, y: number) => [(x + offset) * stepX, (y + offset) * stepY] as const;
  return boxes(node, { height, width, imageHeight, imageWidth, sizes, at });
};

const clustered: Rule = (node) => {
  const [height, width, imageHeight, imageWidth] = planes(node);
  const [widths, heights] = [node.numbers('width', []), node.numbers('height', [])];
  if (widths.length !== heights.length)
    throw badModel(`has ${widths.length} widths and ${heights.length} heights`);
  const step = node.number('step', 0);
  for (const name of ['img_h', 'img_w'])
    if (node.number(name, 0) !== 0) throw badModel(`${name} is not supported`);
  const stepY = node.number('step_h', 0) || step || imageHeight / height;
  const stepX = node.number('step_w', 0) || step || imageWidth / width;
  const offset = node.number('offset', 0);
  const at = (x: number, y: number) => [(x + offset) * stepX, (y + offset) * stepY] as const;
  const sizes = widths.map((each, i): [number, number] => [each, heights[i] as number]);
  return boxes(node, { height, width, imageHeight, imageWidth, sizes, at });
};

interface Grid {
  readonly height: number;
  readonly width: number;
  readonly imageHeight: number;
  readonly imageWidth: number;
  readonly sizes: readonly (readonly [number, number])[];
  /** The center of a cell in pixels. */
  readonly at: (x: number, y: number) => readonly [number, number];
}

function boxes(node: OvNode, { height, width, imageHeight, imageWidth, sizes, at }: Grid): Value {
  const count = height * width * sizes.length * 4;
  if (!(count > 0 && count <= MAX_NUMBERS))
    throw badModel(`makes ${count} numbers, the limit is ${MAX_NUMBERS}`);
  const data = new Float32Array(2 * count);
  const isClipped = node.flag('clip', false);
  const within = (value: number) => (isClipped ? Math.min(Math.max(value, 0), 1) : value);
  let place = 0;
  for (let y = 0; y < height; y++)
    for (let x = 0; x < width; x++)
      for (const [w, h] of sizes) {
        const [centerX, centerY] = at(x, y);
        data[place++] = within((centerX - w / 2) / imageWidth);
        data[place++] = within((centerY - h / 2) / imageHeight);
        data[place++] = within((centerX + w / 2) / imageWidth);
        data[place++] = within((centerY + h / 2) / imageHeight);
      }
  const given = node.numbers('variance', []);
  const variance = given.length === 0 ? [0.1] : given;
  if (variance.length !== 1 && variance.length !== 4) throw badModel(`has ${variance.length} variances`);
  for (let i = 0; i < count; i++) data[count + i] = variance[i % variance.length] as number;
  const shape = node.net.version >= 10 ? [2, count] : [1, 2, count];
  return node.g.constant({ dtype: 'float32', shape, data }, node.hint);
}

export const PRIORS: OpTable = { PriorBox: priorBox, PriorBoxClustered: clustered };
