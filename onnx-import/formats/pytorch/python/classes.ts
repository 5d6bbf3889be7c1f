/** Classes and functions that cloudpickle stored by value, read as plain data. */
import { badModel } from '../../../../lib/contract/errors.ts';
import { type Pickled, PickledCall, PickledGlobal, PickledTuple } from '../../../files/pickled.ts';
import { decode, type Instruction } from './decode.ts';

const MAX_BASES = 50;

export interface Code {
  readonly name: string;
  readonly positional: number;
  readonly keywordOnly: number;
  readonly hasRest: boolean;
  readonly hasKeywords: boolean;
  readonly instructions: readonly Instruction[];
  readonly constants: readonly Pickled[];
  readonly names: readonly string[];
  readonly variables: readonly string[];
  /** Cells first, then what comes from outside, as derefs count them; since 3.11 after the variables. */
  readonly cells: readonly string[];
  readonly isNew: boolean;
}

export interface PythonFunction {
  readonly code: Code;
  readonly globals: ReadonlyMap<Pickled, Pickled>;
  readonly defaults: readonly Pickled[];
  readonly keywordDefaults: ReadonlyMap<Pickled, Pickled>;
  readonly closure: readonly Pickled[];
}

export interface PythonClass {
  readonly name: string;
  readonly members: ReadonlyMap<Pickled, Pickled>;
  readonly bases: readonly Pickled[];
}

function calls(value: PickledCall, name: string): boolean {
  return (
    value.name.endsWith(name) && /^cloudpickle\b|^(__builtin__|builtins)\b|cloudpickle\./.test(value.name)
  );
}

/** A call of a built-in type that cloudpickle looks up by its name. */
function makes({ callee }: PickledCall, type: string): boolean {
  return (
    callee instanceof PickledCall && callee.name.endsWith('_builtin_type') && callee.operands[0] === type
  );
}

function tuple(value: Pickled | undefined): readonly Pickled[] {
  return value instanceof PickledTuple ? value.items : Array.isArray(value) ? value : [];
}

function map(value: Pickled | undefined): ReadonlyMap<Pickled, Pickled> {
  return value instanceof Map ? value : new Map();
}

/** Undefined for anything but a class that the file holds by value. */
export function classOf(value: Pickled | undefined): PythonClass | undefined {
  if (!(value instanceof PickledCall)) return undefined;
  if (calls(value, '_rehydrate_skeleton_class')) {
    const [skeleton, members] = value.operands;
    const made = classOf(skeleton);
    return made && { ...made, members: new Map([...made.members, ...map(members)]) };
  }
  const isSkeleton = calls(value, '_make_skeleton_class');
  if (!isSkeleton && !calls(value, 'builtin__.type') && !calls(value, 'builtins.type')) return undefined;
  const [name, bases, own] = isSkeleton ? value.operands.slice(1) : value.operands;
  const members = new Map(map(own));
  for (const use of value.uses) {
    const [, state] = use.operands;
    const set = use.name.endsWith('_class_setstate')
      ? tuple(state)[0]
      : use.name.endsWith('_rehydrate_skeleton_class')
        ? state
        : undefined;
    for (const [key, member] of map(set)) members.set(key, member);
  }
  return { name: typeof name === 'string' ? name : 'class', members, bases: tuple(bases) };
}

/** The member of a class or of its bases, and the first base that is not in the file. */
export function memberOf(type: PythonClass, name: string, depth = 0): Pickled | undefined {
  if (depth > MAX_BASES) throw badModel(`class ${type.name} has over ${MAX_BASES} bases`);
  const own = type.members.get(name);
  if (own !== undefined) return own;
  for (const base of type.bases) {
    const found = classOf(base);
    const member = found && memberOf(found, name, depth + 1);
    if (member !== undefined) return member;
  }
  return undefined;
}

/** The names of the classes of torch that a class is made of. */
export function outerBases(type: PythonClass, depth = 0): string[] {
  if (depth > MAX_BASES) return [];
  return type.bases.flatMap((base) => {
    if (base instanceof PickledGlobal) return [base.name];
    const found = classOf(base);
    return found ? outerBases(found, depth + 1) : [];
  });
}

/** Undefined for anything but a function by value. */
export function functionOf(value: Pickled | undefined): PythonFunction | undefined {
  if (!(value instanceof PickledCall)) return undefined;
  if (calls(value, '_fill_function')) {
    const [skeleton, state] = value.operands;
    if (!(skeleton instanceof PickledCall) || !calls(skeleton, '_make_skel_func')) return undefined;
    const fields = map(state);
    return {
      code: codeOf(skeleton.operands[0]),
      globals: map(fields.get('globals')),
      defaults: tuple(fields.get('defaults')),
      keywordDefaults: map(fields.get('kwdefaults')),
      closure: tuple(fields.get('closure_values')),
    };
  }
  if (!calls(value, '_make_function') && !makes(value, 'LambdaType') && !makes(value, 'FunctionType'))
    return undefined;
  const [code, globals, , defaults, closure] = value.operands;
  const set = value.uses.find(({ name }) => name.endsWith('_function_setstate'));
  const fields = map(tuple(set?.operands[1])[1]);
  const cells = tuple(fields.get('__closure__') ?? closure).map((cell) => cellOf(cell));
  return {
    code: codeOf(code),
    globals: new Map([...map(globals), ...map(fields.get('__globals__'))]),
    defaults: tuple(fields.get('__defaults__') ?? defaults),
    keywordDefaults: map(fields.get('__kwdefaults__')),
    closure: cells,
  };
}

function cellOf(cell: Pickled): Pickled {
  if (!(cell instanceof PickledCall)) return null;
  const set = cell.uses.find(({ name }) => name.endsWith('cell_set'));
  return (set ? set.operands[1] : cell.operands[0]) ?? null;
}

function bytesOf(value: Pickled | undefined): Uint8Array {
  if (value instanceof Uint8Array) return value;
  if (
    value instanceof PickledCall &&
    value.name === '_codecs.encode' &&
    typeof value.operands[0] === 'string'
  )
    return new Uint8Array(Buffer.from(value.operands[0], 'latin1'));
  throw badModel('a function without bytecode');
}

function texts(value: Pickled | undefined): string[] {
  return tuple(value).map((item) => (typeof item === 'string' ? item : ''));
}

export function isCode(value: Pickled | undefined): value is PickledCall {
  if (!(value instanceof PickledCall)) return false;
  return makes(value, 'CodeType') || value.name === 'types.CodeType' || value.name === '__builtin__.code';
}

/** The fields of a code object by version: 15 before 3.8, 16 up to 3.10, 18 since. */
export function codeOf(value: Pickled | undefined): Code {
  if (!isCode(value)) throw badModel('a function without code');
  const fields = value.operands;
  const version = ({ 15: 'old', 16: '3.8', 18: '3.11' } as const)[fields.length as 15 | 16 | 18];
  if (!version)
    throw badModel(`a code object with ${fields.length} fields, which no Python from 3.6 to 3.11 makes`);
  const shift = version === 'old' ? 0 : 1;
  const at = (i: number) => fields[i + shift];
  const late = version === '3.11' ? 2 : 0;
  const number = (field: Pickled | undefined) => (typeof field === 'number' ? field : 0);
  const flags = number(at(4));
  if (flags & 0x2a0) throw badModel('a generator or coroutine is not supported');
  const lines = at(12 + (version === '3.11' ? 1 : 0));
  const raw = {
    version,
    code: bytesOf(at(5)),
    lines: lines === undefined ? new Uint8Array(0) : bytesOf(lines),
  };
  const [free, cell] = [texts(at(13 + late)), texts(at(14 + late))];
  const name = at(10);
  return {
    name: typeof name === 'string' ? name : 'function',
    positional: number(fields[0]),
    keywordOnly: number(at(1)),
    hasRest: (flags & 4) !== 0,
    hasKeywords: (flags & 8) !== 0,
    instructions: decode(raw),
    constants: tuple(at(6)),
    names: texts(at(7)),
    variables: texts(at(8)),
    cells: [...cell, ...free],
    isNew: version === '3.11',
  };
}
