/** The inputs of a PyTorch model: the file names them, their shapes and types come from the options. */
import { badModel } from '../../../lib/contract/errors.ts';
import type { DType } from '../../../lib/contract/tensor.ts';
import type { Dim, Shape } from '../../graph/value.ts';
import type { ConvertOptions } from '../../source/convert-options.ts';
import { tooManyShapes } from '../problems.ts';
import { Float, type Py } from './run/values.ts';

const MAX_RANK = 16;
const TYPES = new Set<string>(['float32', 'float64', 'int64', 'int32', 'int16', 'int8', 'uint8', 'bool']);

/** A parameter of the model's forward method. */
export interface Parameter {
  readonly name: string;
  /** The annotation, such as `Optional[Tensor]`. */
  readonly type: string;
  readonly hasDefault: boolean;
  /** What the file says of its shape, which holds. */
  readonly spec?: InputSpec;
}

export interface InputSpec {
  readonly name: string;
  readonly shape: Shape;
  /** Undefined: the options do not say, so float32 unless the model needs whole numbers. */
  readonly dtype: DType | undefined;
  /** The file says its shape. */
  readonly isOfFile?: boolean;
}

/** What each parameter is given: an input of the graph, a fixed value, or its default (undefined). */
export type Given = InputSpec | { readonly value: Py } | undefined;

/** @throws bad_model naming every input without a shape, with the option that gives it */
export function givenInputs(
  parameters: readonly Parameter[],
  options: ConvertOptions,
  file: string,
): Given[] {
  const shapes = options.inputShapes ?? {};
  const problems: string[] = [];
  const names = parameters.map(({ name }) => name);
  for (const name of [
    ...Object.keys(shapes),
    ...(options.inputNames ?? []),
    ...Object.keys(options.constants ?? {}),
  ])
    if (!names.includes(name)) problems.push(`has no input "${name}"; its inputs are ${names.join(', ')}`);
  const count = options.shapesInOrder?.length ?? 0;
  if (count > parameters.length) problems.push(tooManyShapes(parameters, count));
  const given = parameters.map((parameter, i): Given => {
    const { name, type } = parameter;
    const constant = options.constants?.[name];
    if (constant !== undefined) return { value: constantOf(constant, type) };
    const said = Object.hasOwn(shapes, name) ? shapes[name] : options.shapesInOrder?.[i];
    const { spec } = parameter;
    const own = said && specOf(name, said, problems);
    if (spec) return own ? narrowed(spec, own, problems) : spec;
    if (own) return own;
    if (parameter.hasDefault) return undefined;
    if (/^(Optional\[)?(int|float|bool)\b/.test(type))
      problems.push(
        `input "${name}" is one ${type}, which is fixed at import; give it with --constant ${name}=1`,
      );
    else if (/^(Optional\[)?(List|Tuple|Dict|__torch__)/.test(type))
      problems.push(
        `input "${name}" is a ${type}; wrap the model in a module whose forward takes tensors, and save that`,
      );
    else
      problems.push(
        `a PyTorch file does not say the shape of input "${name}"; give it with --input ${name}:<shape>, like ${name}:1,3,224,224 (or ${name}:int64,1,16 for whole numbers)`,
      );
    return undefined;
  });
  if (problems.length > 0) throw badModel(`${file}: ${problems.slice(0, 20).join('; ')}`);
  return given;
}

/** The sizes that the file fixes stay; one that it leaves free may be fixed. */
function narrowed(spec: InputSpec, { shape, dtype }: InputSpec, problems: string[]): InputSpec {
  const fits =
    shape.length === spec.shape.length &&
    (dtype === undefined || dtype === spec.dtype) &&
    spec.shape.every((dim, i) => typeof dim === 'string' || dim === shape[i]);
  if (!fits)
    problems.push(
      `input "${spec.name}" was exported as ${spec.dtype ?? 'float32'} [${spec.shape.join(',')}], which --input cannot change; export it again, with dynamic_shapes for a size that is to be free`,
    );
  return { ...spec, shape: spec.shape.map((dim, i) => (typeof shape[i] === 'number' ? shape[i] : dim)) };
}

function constantOf(number: number, type: string): Py {
  if (type.includes('bool')) return number !== 0;
  return type.includes('int') && Number.isInteger(number) ? number : new Float(number);
}

/** The first word of a shape may be a type: int64,1,16. */
function specOf(name: string, said: Shape, problems: string[]): InputSpec {
  const [first] = said;
  const isTyped = typeof first === 'string' && TYPES.has(first);
  const shape = isTyped ? said.slice(1) : said;
  const isBroken = shape.some(
    (dim: Dim) => typeof dim === 'number' && !(Number.isSafeInteger(dim) && dim > 0),
  );
  if (isBroken || shape.length > MAX_RANK)
    problems.push(`input "${name}" cannot have the shape ${shape.slice(0, MAX_RANK).join(',')}`);
  return { name, shape, dtype: isTyped ? (first as DType) : undefined };
}

export function isSpec(given: Given): given is InputSpec {
  return given !== undefined && 'shape' in given;
}
