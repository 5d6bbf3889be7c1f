/**
 * In: a message, a field's name. Out: the field's value as the type the caller expects, or protobuf's default for it.
 * Trap: asking for another type than the table's is a mistake of ours and fails as `internal`, whatever the file says.
 */
import { ServingError } from '../../lib/contract/errors.ts';
import type { Message, MessageMap, MessageValue, NumberArray } from './table.ts';

const NO_BYTES = new Uint8Array(0);
const NO_ENTRIES: MessageMap = new Map();

export function has(message: Message, name: string): boolean {
  return message[name] !== undefined;
}

export function textOf(message: Message, name: string, fallback = ''): string {
  const value = message[name];
  if (value === undefined) return fallback;
  return typeof value === 'string' ? value : wrongType(name, 'a text', value);
}

export function numberOf(message: Message, name: string, fallback = 0): number {
  const value = message[name];
  if (value === undefined) return fallback;
  return typeof value === 'number' ? value : wrongType(name, 'a number', value);
}

export function flagOf(message: Message, name: string, fallback = false): boolean {
  const value = message[name];
  if (value === undefined) return fallback;
  return typeof value === 'boolean' ? value : wrongType(name, 'a bool', value);
}

export function bytesOf(message: Message, name: string): Uint8Array {
  const value = message[name];
  if (value === undefined) return NO_BYTES;
  return value instanceof Uint8Array ? value : wrongType(name, 'bytes', value);
}

export function messageOf(message: Message, name: string): Message | undefined {
  const value = message[name];
  if (value === undefined) return undefined;
  return isMessage(value) ? value : wrongType(name, 'a message', value);
}

export function messagesOf(message: Message, name: string): readonly Message[] {
  const value = message[name];
  if (value === undefined) return [];
  return Array.isArray(value) ? (value as readonly Message[]) : wrongType(name, 'messages', value);
}

export function textsOf(message: Message, name: string): readonly string[] {
  const value = message[name];
  if (value === undefined) return [];
  return Array.isArray(value) ? (value as readonly string[]) : wrongType(name, 'texts', value);
}

/** A repeated `bytes` field. */
export function byteStringsOf(message: Message, name: string): readonly Uint8Array[] {
  const value = message[name];
  if (value === undefined) return [];
  return Array.isArray(value) ? (value as readonly Uint8Array[]) : wrongType(name, 'byte strings', value);
}

/** A repeated number of any type; undefined when the file has none. */
export function numbersOf(message: Message, name: string): NumberArray | undefined {
  const value = message[name];
  if (value === undefined) return undefined;
  return ArrayBuffer.isView(value) ? value : wrongType(name, 'numbers', value);
}

/** A short repeated number as plain numbers (shapes, kernel sizes). Not for weights. */
export function plainNumbersOf(message: Message, name: string): number[] {
  const value = numbersOf(message, name);
  return value === undefined ? [] : Array.from(value as ArrayLike<number | bigint>, Number);
}

export function mapOf(message: Message, name: string): MessageMap {
  const value = message[name];
  if (value === undefined) return NO_ENTRIES;
  return value instanceof Map ? (value as MessageMap) : wrongType(name, 'a map', value);
}

function isMessage(value: MessageValue | undefined): value is Message {
  return (
    typeof value === 'object' &&
    !Array.isArray(value) &&
    !ArrayBuffer.isView(value) &&
    !(value instanceof Map)
  );
}

function wrongType(name: string, expected: string, value: MessageValue): never {
  throw new ServingError('internal', `field ${name} was asked for as ${expected} and is ${typeof value}`);
}
