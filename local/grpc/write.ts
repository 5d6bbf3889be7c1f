/** Writes an answer by its table: protobuf's wire format, of the field types that answers have. */
import { ServingError } from '../../lib/contract/errors.ts';
import {
  bytes,
  type Chunk,
  type Field,
  integer,
  message,
  type Table,
  text,
} from '../../onnx-import/protobuf.ts';

/** @param value its fields by name; those that are not in the table are left out */
export function writeMessage(value: object, table: Table): Chunk {
  const values = new Map(Object.entries(value));
  return message(
    Object.entries(table).flatMap(([number, field]) => {
      const given: unknown = values.get(field.name);
      if (given === undefined) return [];
      return elementsOf(given, field).map((element) => writeField(Number(number), element, field));
    }),
  );
}

function elementsOf(given: unknown, { repeated, map }: Field): readonly unknown[] {
  if (map) return Object.entries(given as object).map(([key, value]) => ({ key, value }));
  return repeated ? (given as readonly unknown[]) : [given];
}

function writeField(number: number, value: unknown, { type, name, enumNames }: Field): Chunk {
  if (typeof type === 'function') return bytes(number, writeMessage(value as object, type()));
  if (value instanceof Uint8Array) return bytes(number, { parts: [value], length: value.byteLength });
  if (type === 'string') return text(number, value as string);
  const found = type === 'enum' ? enumNames?.[value as string] : Number(value);
  if (found === undefined) throw new ServingError('internal', `${name} has no number for ${String(value)}`);
  return integer(number, found);
}
