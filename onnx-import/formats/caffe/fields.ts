/**
 * Parses one-line field tables, such as `uint32 num_output=1, uint32* pad=3`, for the wire readers. A star means
 * repeated; a type that is not a scalar is an enum or a message given beside the line.
 */
import type { Field, ScalarType, Table } from '../../wire/table.ts';

const SCALARS: ReadonlySet<string> = new Set<ScalarType>([
  'bool',
  'int32',
  'uint32',
  'int64',
  'float',
  'double',
  'string',
  'bytes',
]);

export type EnumNames = Readonly<Record<string, number>>;

/** The other types of a line: the names of an enum, or a function that returns a message's table. */
export type Types = Readonly<Record<string, EnumNames | (() => Table)>>;

export function table(line: string, types: Types = {}): Table {
  const fields: Record<number, Field> = {};
  for (const part of line.split(',')) {
    const match = /^\s*(\w+)(\*?) (\w+)=(\d+)\s*$/.exec(part);
    if (!match) throw new Error(`no field: "${part}"`);
    const [, type = '', star, name = '', number] = match;
    if (Object.hasOwn(fields, Number(number))) throw new Error(`field ${number} is there twice`);
    fields[Number(number)] = { name, ...typeOf(type, types), ...(star === '*' ? { repeated: true } : {}) };
  }
  return fields;
}

function typeOf(type: string, types: Types): Pick<Field, 'type' | 'enumNames'> {
  if (SCALARS.has(type)) return { type: type as ScalarType };
  const own = types[type];
  if (own === undefined) throw new Error(`no type: "${type}"`);
  return typeof own === 'function' ? { type: own } : { type: 'enum', enumNames: own };
}
