/**
 * Reads an Arrow schema as a tree of columns that knows where each one's data will be. A record batch is two flat lists
 * (nodes, buffers) in schema order; a type whose buffers cannot be counted would shift every later column, so an
 * unknown type refuses the record by column name and type.
 */
import { badRequest, type ServingError } from '../../contract/errors.ts';
import { LIMITS, overLimit } from '../../contract/limits.ts';
import type { NumericDType } from '../../contract/tensor.ts';
import { quoteName } from '../quote.ts';
import type { FlatReader } from './flatbuffers.ts';

/**
 * The type of a column or its child. Binary is read as text, because the Scala front end had base64 in such columns.
 */
type ArrowType = NumericDType | 'utf8' | 'large_utf8' | 'list' | 'large_list' | 'struct';

export interface ArrowField {
  readonly name: string;
  readonly type: ArrowType;
  readonly children: readonly ArrowField[];
  /** Index of its node, and of its first buffer, in every record batch. */
  readonly node: number;
  readonly buffer: number;
}

/** By number, as in Arrow's Schema.fbs. */
const TYPE_NAMES = [
  'none',
  'null',
  'int',
  'float',
  'binary',
  'utf8',
  'bool',
  'decimal',
  'date',
  'time',
  'timestamp',
  'interval',
  'list',
  'struct',
  'union',
  'fixed_size_binary',
  'fixed_size_list',
  'map',
  'duration',
  'large_binary',
  'large_utf8',
  'large_list',
  'run_end_encoded',
  'binary_view',
  'utf8_view',
  'list_view',
  'large_list_view',
] as const;
const FLOATS = ['float16', 'float32', 'float64'] as const;
const EXPECTED = 'expected utf8, a number, list<...> or struct<indiceData, indiceShape, data, shape>';
/** struct > list > number is 3; nothing that we read is deeper. */
const MAX_DEPTH = 3;

const FIELD = { name: 0, typeNumber: 2, type: 3, dictionary: 4, children: 5 } as const;

/** @throws bad_request for a type or depth that we do not read, too_large over LIMITS.arrowFields */
export function readSchema(flat: FlatReader, schema: number): ArrowField[] {
  const endianness = flat.slot(schema, 0);
  if (endianness !== 0 && flat.i16(endianness) !== 0) {
    throw badRequest('Arrow stream: expected little-endian data, got big-endian');
  }
  const fields = flat.slot(schema, 1);
  return fields === 0 ? [] : new SchemaWalk(flat).children(fields, '', 1);
}

class SchemaWalk {
  readonly #flat: FlatReader;
  #nodes = 0;
  #buffers = 0;

  constructor(flat: FlatReader) {
    this.#flat = flat;
  }

  children(at: number, path: string, depth: number): ArrowField[] {
    const { start, count } = this.#flat.items(at, 4);
    if (this.#nodes + count > LIMITS.arrowFields) throw overLimit('arrowFields', 'Arrow schema:', 'fields');
    const fields: ArrowField[] = [];
    for (let i = 0; i < count; i++) fields.push(this.#field(this.#flat.follow(start + 4 * i), path, depth));
    return fields;
  }

  #field(field: number, parent: string, depth: number): ArrowField {
    const flat = this.#flat;
    const nameAt = flat.slot(field, FIELD.name);
    const name = nameAt === 0 ? '' : flat.string(nameAt);
    const path = depth === 1 ? name : `${parent}.${name}`;
    const type = this.#type(field, path);
    const nested = type === 'list' || type === 'large_list' || type === 'struct';
    if (nested && depth === MAX_DEPTH) throw unsupported(path, `${type}, nested too deeply`);
    const [node, buffer] = [this.#nodes, this.#buffers];
    this.#nodes += 1;
    // Validity, then offsets or values or both; a struct has validity alone.
    this.#buffers += type === 'utf8' || type === 'large_utf8' ? 3 : type === 'struct' ? 1 : 2;
    const childrenAt = nested ? flat.slot(field, FIELD.children) : 0;
    const children = childrenAt === 0 ? [] : this.children(childrenAt, path, depth + 1);
    if (type !== 'struct' && nested && children.length !== 1) {
      throw unsupported(path, `${type} of ${children.length} items`);
    }
    return { name, type, children, node, buffer };
  }

  #type(field: number, path: string): ArrowType {
    const flat = this.#flat;
    const numberAt = flat.slot(field, FIELD.typeNumber);
    const number = numberAt === 0 ? 0 : flat.u8(numberAt);
    const name = TYPE_NAMES[number] ?? `number ${number}`;
    if (flat.slot(field, FIELD.dictionary) !== 0) throw unsupported(path, `dictionary of ${name}`);
    const typeAt = flat.slot(field, FIELD.type);
    const type = typeAt === 0 ? 0 : flat.follow(typeAt);
    switch (name) {
      case 'int':
        return this.#int(type, path);
      case 'float': {
        const precisionAt = type === 0 ? 0 : flat.slot(type, 0);
        const float = FLOATS[precisionAt === 0 ? 0 : flat.i16(precisionAt)];
        if (float === undefined) throw unsupported(path, 'float of unknown precision');
        return float;
      }
      case 'binary':
        return 'utf8';
      case 'large_binary':
        return 'large_utf8';
      case 'utf8':
      case 'large_utf8':
      case 'list':
      case 'large_list':
      case 'struct':
        return name;
      default:
        throw unsupported(path, name);
    }
  }

  #int(type: number, path: string): NumericDType {
    const flat = this.#flat;
    const bitsAt = type === 0 ? 0 : flat.slot(type, 0);
    const signedAt = type === 0 ? 0 : flat.slot(type, 1);
    const bits = bitsAt === 0 ? 0 : flat.i32(bitsAt);
    const signed = signedAt !== 0 && flat.u8(signedAt) !== 0;
    if (bits !== 8 && bits !== 16 && bits !== 32 && bits !== 64)
      throw unsupported(path, `int of ${bits} bits`);
    return signed ? `int${bits}` : `uint${bits}`;
  }
}

function unsupported(path: string, type: string): ServingError {
  return badRequest(`Arrow column ${quoteName(path)}: type ${type} is not supported; ${EXPECTED}`);
}

/** `struct<data: list<float32>, ...>`, for messages. */
export function formatType(field: ArrowField): string {
  if (field.children.length === 0) return field.type;
  const parts = field.children.map((child) =>
    field.type === 'struct' ? `${child.name}: ${formatType(child)}` : formatType(child),
  );
  const inner = parts.join(', ');
  return `${field.type}<${inner.length > 200 ? `${inner.slice(0, 200)}...` : inner}>`;
}
