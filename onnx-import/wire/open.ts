/**
 * Builds messages while they are read, for both encodings. Field names come from the tables, never from the file. The
 * keys of a map do come from the file, so a map is a Map.
 */
import { ServingError } from '../../lib/contract/errors.ts';
import type { Field, Message, MessageValue, Table } from './table.ts';

/** A message while it is read. */
export type OpenMessage = Record<string, MessageValue | undefined>;

/** An object without prototype that is as fast as an ordinary one. */
const MessageObject = function () {} as unknown as new () => OpenMessage;
MessageObject.prototype = Object.create(null);

export function newMessage(): OpenMessage {
  return new MessageObject();
}

/** The array of a repeated field, created if missing. */
export function list<T extends Message | string | Uint8Array>(message: OpenMessage, name: string): T[] {
  let values = message[name] as T[] | undefined;
  if (values === undefined) {
    values = [];
    message[name] = values as MessageValue;
  }
  return values;
}

/** A singular message. As in protobuf, a second occurrence is merged into it. */
export function singular(message: OpenMessage, name: string): OpenMessage {
  let value = message[name] as OpenMessage | undefined;
  if (value === undefined) {
    value = newMessage();
    message[name] = value;
  }
  return value;
}

/** Adds a map entry. A missing key or value has its type's default; the last of equal keys wins. */
export function putEntry(message: OpenMessage, name: string, table: Table, entry: Message): void {
  const map = (message[name] as Map<string | number, MessageValue> | undefined) ?? new Map();
  message[name] = map;
  const key = entry[fieldName(table, 1)] ?? (table[1]?.type === 'string' ? '' : 0);
  map.set(key, entry[fieldName(table, 2)] ?? emptyValue(table[2]));
}

function fieldName(table: Table, number: number): string {
  const field = table[number];
  if (field === undefined) throw new ServingError('internal', `a map's table has no field ${number}`);
  return field.name;
}

function emptyValue(field: Field | undefined): MessageValue {
  if (field === undefined || typeof field.type === 'function') return newMessage();
  if (field.type === 'string') return '';
  if (field.type === 'bytes') return new Uint8Array(0);
  return field.type === 'bool' ? false : 0;
}
