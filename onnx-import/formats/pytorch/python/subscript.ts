/** x[...] of tensors, read and written, as torch's Python binding takes it apart into views and indices. */
import { callOperator } from '../aten/table.ts';
import type { Context } from '../run/context.ts';
import { TensorRef } from '../run/tensor.ts';
import { isInt, Named, type Py, refuse, Tuple } from '../run/values.ts';

const NO_NAMES: ReadonlyMap<string, Py> = new Map();

/** start:stop:step */
export class Slice extends Named {
  readonly start: Py;
  readonly stop: Py;
  readonly step: Py;
  constructor(start: Py, stop: Py, step: Py) {
    super('slice');
    this.start = start;
    this.stop = stop;
    this.step = step;
  }
}

function isEllipsis(key: Py): boolean {
  return key instanceof Named && key.name.endsWith('Ellipsis');
}

/** Reads the part, or with `value` writes it in place. */
export function subscript(c: Context, x: TensorRef, key: Py, value?: Py): Py {
  const keys = key instanceof Tuple ? key.items : [key];
  const taken = keys.filter((each) => each !== null && !isEllipsis(each)).length;
  const operate = (name: string, ...args: Py[]) => callOperator(c, name, args, NO_NAMES) as TensorRef;
  let [part, axis] = [x, 0];
  const indices: Py[] = [];
  for (const each of keys) {
    if (isEllipsis(each)) axis += x.shape.length - taken;
    else if (each === null) part = operate('unsqueeze', part, axis++);
    else if (isInt(each)) part = operate('select', part, axis, each);
    else if (each instanceof Slice)
      part = operate('slice', part, axis++, each.start, each.stop, each.step ?? 1);
    else if (each instanceof TensorRef) indices[axis++] = each;
    else return refuse('has an index that is not supported');
  }
  const list = c.list(Array.from(indices, (each) => each ?? null));
  if (value === undefined) return indices.length === 0 ? part : operate('index', part, list);
  if (indices.length === 0) return operate(value instanceof TensorRef ? 'copy_' : 'fill_', part, value);
  const source = value instanceof TensorRef ? value : callOperator(c, 'scalar_tensor', [value], NO_NAMES);
  return operate('index_put_', part, list, source);
}
