/**
 * Returns a message's fields as the types that the caller expects, or protobuf's defaults. Asking for another type
 * than the table's is a programming error and fails as `internal`, whatever the file contains.
 */
import { ServingError } from '../../lib/contract/errors.ts';
import type { Message, MessageMap, MessageValue, NumberArray } from './table.ts';

const NO_BYTES = new Uint8Array(0);
const NO_ENTRIES: MessageMap = new Map();

export function has(message: Message, name: string): boolean {
  return message[name] !== undefined;
}

/** @param fallback for a missing field */
function field<T>(
  message: Message,
  name: string,
  expected: string,
  isRight: (value: MessageValue) => boolean,
  fallback: T,
): T {
  const value = message[name];
  if (value === undefined) return fallback;
  // `isRight` has checked that the field has the type of the table.
  if (isRight(value)) return value as T;
  throw new ServingError('internal', `field ${name} was asked for as ${expected} and is ${typeof value}`);
}

const isText = (value: MessageValue) => typeof value === 'string';
const isNumber = (value: MessageValue) => typeof value === 'number';
const isFlag = (value: MessageValue) => typeof value === 'boolean';
const isBytes = (value: MessageValue) => value instanceof Uint8Array;
const isNumbers = (value: MessageValue) => ArrayBuffer.isView(value);
const isMap = (value: MessageValue) => value instanceof Map;
const isMessage = (value: MessageValue) =>
  typeof value === 'object' && !Array.isArray(value) && !ArrayBuffer.isView(value) && !isMap(value);

export function textOf(message: Message, name: string, fallback = ''): string {
  return field(message, name, 'a text', isText, fallback);
}

export function numberOf(message: Message, name: string, fallback = 0): number {
  return field(message, name, 'a number', isNumber, fallback);
}

export function flagOf(message: Message, name: string, fallback = false): boolean {
  return field(message, name, 'a bool', isFlag, fallback);
}

export function bytesOf(message: Message, name: string): Uint8Array {
  return field(message, name, 'bytes', isBytes, NO_BYTES);
}

export function messageOf(message: Message, name: string): Message | undefined {
  return field<Message | undefined>(message, name, 'a message', isMessage, undefined);
}

export function messagesOf(message: Message, name: string): readonly Message[] {
  return field<readonly Message[]>(message, name, 'messages', Array.isArray, []);
}

export function textsOf(message: Message, name: string): readonly string[] {
  return field<readonly string[]>(message, name, 'texts', Array.isArray, []);
}

/** A repeated `bytes` field. */
export function byteStringsOf(message: Message, name: string): readonly Uint8Array[] {
  return field<readonly Uint8Array[]>(message, name, 'byte strings', Array.isArray, []);
}

/** Texts that lie in the file as bytes. */
export function utf8TextsOf(message: Message, name: string): string[] {
  return byteStringsOf(message, name).map((bytes) => Buffer.from(bytes).toString());
}

/** A repeated number of any type; undefined when the file has none. */
export function numbersOf(message: Message, name: string): NumberArray | undefined {
  return field<NumberArray | undefined>(message, name, 'numbers', isNumbers, undefined);
}

/** A short repeated number as plain numbers (shapes, kernel sizes). Not for weights. */
export function plainNumbersOf(message: Message, name: string): number[] {
  const value = numbersOf(message, name);
  return value === undefined ? [] : Array.from(value as ArrayLike<number | bigint>, Number);
}

export function mapOf(message: Message, name: string): MessageMap {
  return field(message, name, 'a map', isMap, NO_ENTRIES);
}
