/** Attributes and methods of a tensor as Python code sees them. */
import { dtypeCode } from '../aten/python.ts';
import { callOperator } from '../aten/table.ts';
import type { Context } from '../run/context.ts';
import type { TensorRef } from '../run/tensor.ts';
import { Callable, itemsOf, Named, type Py, Tuple } from '../run/values.ts';

const NO_NAMES: ReadonlyMap<string, Py> = new Map();

/** Methods that take their sizes as arguments of their own. */
const SPREAD = new Set(
  'view reshape permute repeat expand tile flip new_zeros new_ones new_empty roll movedim'.split(' '),
);

const FACTS: Readonly<Record<string, (c: Context, x: TensorRef) => Py>> = {
  shape: (c, x) => new Tuple(c.shapeOf(x.value)),
  dtype: (_, x) => dtypeCode(x.dtype),
  ndim: (_, x) => x.shape.length,
  device: () => new Named('cpu'),
  is_cuda: () => false,
  requires_grad: () => false,
  data: (_, x) => x,
  T: (c, x) => callOperator(c, 'numpy_T', [x], NO_NAMES),
  mT: (c, x) => callOperator(c, 'mT', [x], NO_NAMES),
};

export function tensorMember(c: Context, x: TensorRef, name: string): Py {
  const fact = Object.hasOwn(FACTS, name) ? FACTS[name] : undefined;
  if (fact) return fact(c, x);
  return new Callable(name, (args, named) => {
    if (name === 'size' && args.length === 0) return new Tuple(c.shapeOf(x.value));
    const isSpread =
      SPREAD.has(name) && args.length > 0 && !itemsOf(args[0]) && name !== 'roll' && name !== 'movedim';
    return callOperator(c, name, isSpread ? [x, c.list(args)] : [x, ...args], named);
  });
}
