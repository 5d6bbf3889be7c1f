/** Calls of archives of an older release, as newer ones make them: torch does the same when it loads such a file. */
import { TensorRef } from '../run/tensor.ts';
import { Float, type Py } from '../run/values.ts';

/** The versions of archives in which a division of whole numbers stopped being one, and torch.full took the type of its number. */
const [DIVISION, FULL] = [4, 5];

/** The same call where nothing has changed since. */
export function upgrade(
  version: number,
  name: string,
  args: readonly Py[],
  named: ReadonlyMap<string, Py>,
): { readonly args: readonly Py[]; readonly named: ReadonlyMap<string, Py> } {
  const isDivision = version < DIVISION && /^div_?$/.test(name) && !named.has('rounding_mode');
  if (isDivision && args.some((arg) => arg instanceof TensorRef) && !args.some(isFloat))
    return { args, named: new Map([...named, ['rounding_mode', 'trunc']]) };
  const [size, fill] = args;
  const isFull = version < FULL && name === 'full' && (named.get('dtype') ?? null) === null;
  if (isFull && size !== undefined && (typeof fill === 'number' || typeof fill === 'boolean'))
    return { args: [size, new Float(Number(fill)), ...args.slice(2)], named };
  return { args, named };
}

function isFloat(arg: Py): boolean {
  return arg instanceof Float || (arg instanceof TensorRef && arg.dtype.startsWith('float'));
}
