/** Sizes that a user gives for the check of a model whose file leaves them free. The model itself stays as it is. */
import { badConfig } from '../../lib/contract/errors.ts';
import { formatShape } from '../../lib/contract/tensor.ts';
import type { TensorSpec } from '../../lib/contract/values.ts';
import type { Shape } from '../graph/value.ts';

/** By input. */
export type GivenShapes = Readonly<Record<string, Shape>> | undefined;

interface Sized {
  readonly inputs: readonly TensorSpec[];
  /** Inputs whose rank is still unknown. */
  readonly shapeless: readonly string[];
}

/**
 * The inputs with the sizes that are given. A free size with a name has the same size wherever it stands; a first size of
 * 1 is one row, and stays free.
 * @throws bad_config for an input that the model does not have, and for a shape that is not one of its own
 */
export function withGivenSizes(
  inputs: readonly TensorSpec[],
  shapeless: readonly string[],
  given: GivenShapes,
): Sized {
  if (given === undefined) return { inputs, shapeless };
  const unknown = Object.keys(given).find((name) => !inputs.some((spec) => spec.name === name));
  if (unknown !== undefined) {
    const names = inputs.map(({ name }) => name).join(', ');
    throw badConfig(`--input ${unknown}: the model has no such input; its inputs: ${names}`);
  }
  const sizes = new Map<string, number>();
  for (const { name, shape } of inputs) {
    const sizesGiven = given[name];
    if (sizesGiven === undefined || shapeless.includes(name)) continue;
    for (const [axis, size] of sizesGiven.entries()) {
      const own = shape[axis];
      const isFixed = typeof own === 'number' && own !== size;
      if (isFixed || sizesGiven.length !== shape.length) throw other(name, shape, sizesGiven);
      if (typeof own !== 'string' || own === '' || typeof size !== 'number' || isRow(size, axis)) continue;
      if ((sizes.get(own) ?? size) !== size) {
        throw badConfig(
          `--input ${name}: the size ${own} is ${sizes.get(own)} and ${size}, but has to be one`,
        );
      }
      sizes.set(own, size);
    }
  }
  const sized = inputs.map((spec): TensorSpec => {
    const own = given[spec.name];
    if (own && shapeless.includes(spec.name)) return { ...spec, shape: own };
    const shape = spec.shape.map((dim, axis) => {
      const size = own?.[axis];
      if (dim === '' && typeof size === 'number' && !isRow(size, axis)) return size;
      return typeof dim === 'string' ? (sizes.get(dim) ?? dim) : dim;
    });
    return { ...spec, shape };
  });
  return { inputs: sized, shapeless: shapeless.filter((name) => given[name] === undefined) };
}

function isRow(size: number | string, axis: number): boolean {
  return axis === 0 && size === 1;
}

function other(name: string, own: TensorSpec['shape'], given: TensorSpec['shape']) {
  const shown = formatShape(own.map((dim) => (dim === '' ? '?' : dim)));
  return badConfig(`--input ${name}: the model has the shape ${shown}, which ${formatShape(given)} is not`);
}
