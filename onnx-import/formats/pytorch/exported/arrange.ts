/** The outputs of a program as its model returned them: the names of a dict become those of the outputs. */
import { Dict, type Py, Tuple } from '../run/values.ts';
import { type Json, list, object, optional, parseJson } from './json.ts';

const MAX_DEPTH = 100;

/** Plain where the program does not say how its outputs belong together. */
export function arrange(module: Json, outputs: readonly Py[]): Py {
  const [root] = list(module['module_call_graph'], 'module_call_graph');
  const signature = optional(object(root, 'module_call_graph')['signature']);
  const spec = signature && specOf(signature['out_spec']);
  const rest = [...outputs];
  const made = spec && build(spec, rest, 0);
  return made !== undefined && rest.length === 0 ? made : plain(outputs);
}

function plain(outputs: readonly Py[]): Py {
  const [only] = outputs;
  return outputs.length === 1 && only !== undefined ? only : new Tuple(outputs);
}

function specOf(text: unknown): Json | undefined {
  if (typeof text !== 'string') return undefined;
  const document = parseJson(Buffer.from(text), 'the description of the outputs');
  return optional(Array.isArray(document) ? document[1] : undefined);
}

/** Undefined for a class that is not known. */
function build(spec: Json, rest: Py[], depth: number): Py | undefined {
  if (depth > MAX_DEPTH) return undefined;
  const { type, context } = spec;
  if (type === null) return rest.shift();
  const children = list(spec['children_spec'], 'children_spec').map((child) =>
    build(object(child, 'children_spec'), rest, depth + 1),
  );
  const items = children.filter((child) => child !== undefined);
  if (items.length < children.length) return undefined;
  if (type === 'builtins.tuple' || type === 'builtins.list') return new Tuple(items);
  if (type !== 'builtins.dict' && type !== 'collections.OrderedDict') return undefined;
  const keys = typeof context === 'string' ? parseJson(Buffer.from(context), 'keys') : context;
  const dict = new Dict();
  for (const [i, key] of list(keys, 'keys').entries()) {
    const item = items[i];
    if (item === undefined) return undefined;
    dict.items.set(String(key), item);
  }
  return dict;
}
