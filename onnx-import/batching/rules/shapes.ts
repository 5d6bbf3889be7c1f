/** Operators that make constants, shapes and counts. */
import type { Call, Rule } from '../call.ts';
import { dependsOnRows, numberOf, ONE, product, type Size, size } from '../size.ts';
import { elementsOf, fixedOf, MAX_ELEMENTS } from '../value.ts';
import { fits, known, settle } from './arithmetic.ts';
import { rowNumbers } from './row-numbers.ts';

const INT64 = 7;
const FLOAT = 1;

/** Of any input: shapes are all that is read. */
function shapeOf(call: Call) {
  const value = call.value(0);
  return value?.shape ?? call.end('the number of dimensions of its input is not known');
}

const shape: Rule = (call) => {
  const dims = shapeOf(call);
  const elements = dims.slice(call.int('start', 0), call.attribute('end')?.int);
  return elementsOf([size(elements.length)], elements, INT64);
};

const sizeRule: Rule = (call) => elementsOf([], [product(shapeOf(call))], INT64);

const constant: Rule = (call) => {
  const { attributes } = call.node;
  const tensor = attributes.get('value')?.tensor;
  if (tensor) return tensor;
  const list = (numbers: readonly number[], type: number) =>
    numbers.length <= MAX_ELEMENTS
      ? elementsOf([size(numbers.length)], numbers.map(size), type)
      : fixedOf([call.dim()]);
  const [int, float] = [attributes.get('value_int'), attributes.get('value_float')];
  const [ints, floats] = [attributes.get('value_ints'), attributes.get('value_floats')];
  if (int) return elementsOf([], [size(int.int)], INT64);
  if (float) return elementsOf([], [size(float.float)], FLOAT);
  if (ints) return list(ints.ints, INT64);
  return floats ? list(floats.floats, FLOAT) : fixedOf();
};

const range: Rule = (call) => {
  const inputs = [0, 1, 2].map((i) => known(call.value(i)));
  const elements = inputs.map((input) => input?.elements[0]);
  if (inputs.some((input) => input?.elements.some((element) => !element || dependsOnRows(element)))) {
    const reason = 'it counts the rows';
    return rowNumbers(call, reason) ?? call.end(reason);
  }
  for (const i of [0, 1, 2]) call.fixed(i);
  const [from, to, step] = elements.map((element, i) => element && exact(element, inputs[i]?.type));
  if (from === undefined || step === undefined) return fixedOf([call.dim()]);
  if (to === undefined) {
    const counted = from === 0 && step === 1 ? elements[1] : undefined;
    return fixedOf([counted && counted.factor > 0 && fits(counted, INT64) ? counted : call.dim()]);
  }
  const count = Math.max(0, Math.ceil((to - from) / step));
  if (!Number.isFinite(count) || !fits(size(to - from), inputs[0]?.type)) return fixedOf([call.dim()]);
  if (count > MAX_ELEMENTS) return fixedOf([size(count)]);
  return elementsOf(
    [size(count)],
    Array.from({ length: count }, (_, i) => size(from + i * step)),
    inputs[0]?.type,
  );
};

/** The number; undefined for a float, whose steps are rounded. */
function exact(element: Size, type: number | undefined): number | undefined {
  return fits(element, type) ? numberOf(element) : undefined;
}

/** Of the elements of a shape. */
const reduceProd = (call: Call, fallback: Rule) => {
  const input = known(call.value(0));
  const axes = call.ints('axes') ?? (call.has(1) ? call.elements(1)?.map(numberOf) : undefined);
  const isWhole = input?.shape.length === 1 && (!axes || axes.every((axis) => axis === 0 || axis === -1));
  if (!input || !isWhole || call.int('noop_with_empty_axes', 0) === 1) return fallback(call);
  const { elements, type } = input;
  const isExact = elements.every((element): element is Size => element !== undefined && fits(element, type));
  const whole = settle(call, elements, isExact ? product(elements) : undefined, type);
  return elementsOf(call.int('keepdims', 1) === 1 ? [ONE] : [], [whole], type);
};

export const SHAPES: Readonly<Record<string, Rule>> = {
  Shape: shape,
  Size: sizeRule,
  Constant: constant,
  Range: range,
};
export { reduceProd };
