/** The prior boxes of single-shot detection. They are constants, because the sizes they come from are known. */
import { badModel } from '../../../lib/contract/errors.ts';
import { aspectRatios, type Priors, priorBoxes, priorSizes } from '../../emit/detect.ts';
import { constantNumbers } from '../../graph/numbers.ts';
import { fixed } from '../../graph/shapes.ts';
import type { Value } from '../../graph/value.ts';
import type { OpTable, OvNode, Rule } from '../node.ts';

/** Height and width of the maps and of the image: the values of two inputs, before version 10 their sizes. */
function planes(node: OvNode): readonly [number, number, number, number] {
  const of = (i: number) =>
    node.net.version >= 10
      ? constantNumbers(node.input(i), 'size of a map')
      : [fixed(node.input(i), 2), fixed(node.input(i), 3)];
  return [...of(0), ...of(1)] as unknown as readonly [number, number, number, number];
}

const priorBox: Rule = (node) => {
  const [height, width, imageHeight, imageWidth] = planes(node);
  for (const name of ['fixed_size', 'fixed_ratio', 'density'])
    if (node.numbers(name, []).length > 0) throw badModel(`${name} is not supported`);
  if (!node.flag('scale_all_sizes', true)) throw badModel('scale_all_sizes false is not supported');
  const step = node.number('step', 0);
  if (node.number('step_w', 0) !== 0 || node.number('step_h', 0) !== 0)
    throw badModel('step_w and step_h are not supported');
  for (const name of ['img_size', 'img_h', 'img_w'])
    if (node.number(name, 0) !== 0) throw badModel(`${name} is not supported`);
  const [stepY, stepX] = step === 0 ? [imageHeight / height, imageWidth / width] : [step, step];
  const offset = node.number('offset', 0.5);
  const ratios = aspectRatios(node.numbers('aspect_ratio', []), node.flag('flip', false));
  const isOrdered = node.flag('min_max_aspect_ratios_order', true);
  const sizes = priorSizes(node.numbers('min_size', []), node.numbers('max_size', []), ratios, isOrdered);
  const steps = [stepX, stepY] as const;
  return boxes(node, { height, width, imageHeight, imageWidth, sizes, offsets: [[offset, offset]], steps });
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
  const sizes = widths.map((each, i): [number, number] => [each, heights[i] as number]);
  const steps = [stepX, stepY] as const;
  return boxes(node, { height, width, imageHeight, imageWidth, sizes, offsets: [[offset, offset]], steps });
};

function boxes(node: OvNode, given: Omit<Priors, 'isClipped' | 'variances'>): Value {
  const [isClipped, variances] = [node.flag('clip', false), node.numbers('variance', [])];
  const data = priorBoxes({ ...given, isClipped, variances });
  const count = data.length / 2;
  const shape = node.net.version >= 10 ? [2, count] : [1, 2, count];
  return node.g.constant({ dtype: 'float32', shape, data }, node.hint);
}

export const PRIORS: OpTable = { PriorBox: priorBox, PriorBoxClustered: clustered };
