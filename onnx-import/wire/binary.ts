/**
 * Reads a protobuf message by its table; any defect is a bad_model error with its offset. Each length is checked
 * against the remaining bytes before anything is allocated. Byte fields are views, so the file's buffer lives as long
 * as the message.
 */
import { badModel } from '../../lib/contract/errors.ts';
import {
  allocateNumbers,
  FIXED_BYTES,
  GrowingNumbers,
  isNumberType,
  join64,
  type NumberType,
  viewNumbers,
} from './numbers.ts';
import { list, newMessage, type OpenMessage, putEntry, singular } from './open.ts';
import type { Field, Message, NumberArray, ScalarType, Table, WireLimits } from './table.ts';
import { WIRE_LIMITS } from './table.ts';

const VARINT = 0;
const FIXED64 = 1;
const DELIMITED = 2;
const GROUP = 3;
const GROUP_END = 4;
const FIXED32 = 5;

interface ReadOptions {
  /** The name of the bytes in errors, such as a file name. */
  readonly what?: string;
  readonly limits?: Partial<WireLimits>;
}

/**
 * Reads the message in `bytes`. Unknown fields, and fields whose wire type differs from the table's, are skipped.
 * @throws bad_model naming `what` and the offset
 */
export function readMessage(bytes: Uint8Array, table: Table, options: ReadOptions = {}): Message {
  const reader = new Reader(bytes, options.what ?? 'protobuf', { ...WIRE_LIMITS, ...options.limits });
  return reader.message(newMessage(), table, bytes.length, 1);
}

class Reader {
  private readonly bytes: Uint8Array;
  private readonly buffer: Buffer;
  private readonly view: DataView;
  private readonly what: string;
  private readonly limits: WireLimits;
  private offset = 0;
  private items = 0;
  private numbers = 0;
  /** The two halves of the last integer read. */
  private low = 0;
  private high = 0;

  constructor(bytes: Uint8Array, what: string, limits: WireLimits) {
    // Subarrays of a Buffer would be Buffers, which only helps when decoding text.
    this.bytes = new Uint8Array(bytes.buffer, bytes.byteOffset, bytes.byteLength);
    this.buffer = Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength);
    this.view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
    this.what = what;
    this.limits = limits;
  }

  message(message: OpenMessage, table: Table, end: number, depth: number): Message {
    if (depth > this.limits.depth) this.fail(`messages are nested deeper than ${this.limits.depth}`);
    this.countItem();
    const growing = new Map<Field, GrowingNumbers>();
    while (this.offset < end) {
      const start = this.offset;
      const { number, wire } = this.tag(end);
      const field = table[number];
      if (field === undefined || !fits(field, wire)) this.skip(number, wire, end, start, depth);
      else this.field(message, field, wire, end, depth, growing);
    }
    for (const [field, numbers] of growing) message[field.name] = numbers.finish();
    return message;
  }

  private field(
    message: OpenMessage,
    field: Field,
    wire: number,
    end: number,
    depth: number,
    growing: Map<Field, GrowingNumbers>,
  ): void {
    const { type, name } = field;
    if (typeof type === 'function') {
      const stop = this.delimited(end);
      if (field.map === true) this.entry(message, name, type(), stop, depth);
      else if (field.repeated === true)
        list<Message>(message, name).push(this.message(newMessage(), type(), stop, depth + 1));
      else this.message(singular(message, name), type(), stop, depth + 1);
    } else if (!isNumberType(type)) {
      const value = this.text(type, end);
      if (field.repeated === true) list<string | Uint8Array>(message, name).push(value);
      else message[name] = value;
    } else if (field.repeated === true) {
      let numbers = growing.get(field);
      if (numbers === undefined) {
        const before = message[name] as NumberArray | undefined;
        // Counted, because a message in a million pieces would copy its numbers a million times.
        if (before !== undefined) this.countNumbers(before.length);
        numbers = new GrowingNumbers(type, before);
        growing.set(field, numbers);
      }
      this.repeated(numbers, type, wire, end);
    } else {
      message[name] = this.number(type, end);
    }
  }

  private text(type: ScalarType, end: number): string | Uint8Array {
    this.countItem();
    const stop = this.delimited(end);
    const start = this.offset;
    this.offset = stop;
    return type === 'string' ? this.buffer.toString('utf8', start, stop) : this.bytes.subarray(start, stop);
  }

  private entry(message: OpenMessage, name: string, table: Table, stop: number, depth: number): void {
    const entry = this.message(newMessage(), table, stop, depth + 1);
    putEntry(message, name, table, entry);
  }

  private repeated(numbers: GrowingNumbers, type: NumberType, wire: number, end: number): void {
    const size = FIXED_BYTES[type];
    if (wire !== DELIMITED) {
      this.countNumbers(1);
      const value = Number(this.number(type, end));
      if (type === 'float' || type === 'double') numbers.push(value);
      else numbers.push(this.low, this.high);
      return;
    }
    const start = this.offset;
    const stop = this.delimited(end);
    if (size === undefined) {
      numbers.append(this.varints(type, stop));
    } else {
      if ((stop - this.offset) % size !== 0) {
        this.fail(`${stop - this.offset} bytes are no whole number of ${type}s`, start);
      }
      numbers.append(viewNumbers(type, this.take(stop - this.offset, end)));
    }
  }

  private varints(type: NumberType, stop: number): NumberArray {
    let count = 0;
    for (let index = this.offset; index < stop; index += 1) {
      if ((this.bytes[index] ?? 0) < 0x80) count += 1;
    }
    this.countNumbers(count);
    const array = allocateNumbers(type, count);
    const halves = array.BYTES_PER_ELEMENT === 8 ? new Uint32Array(array.buffer) : undefined;
    for (let index = 0; index < count; index += 1) {
      this.varint(stop);
      if (halves !== undefined) {
        halves[2 * index] = this.low;
        halves[2 * index + 1] = this.high;
      } else if (type === 'bool') {
        array[index] = this.low === 0 && this.high === 0 ? 0 : 1;
      } else {
        array[index] = this.low;
      }
    }
    if (this.offset !== stop) this.fail('a packed number is cut off');
    return array;
  }

  private number(type: NumberType, end: number): number | boolean {
    const size = FIXED_BYTES[type];
    if (size !== undefined) {
      const start = this.offset;
      this.take(size, end);
      if (type === 'float') return this.view.getFloat32(start, true);
      if (type === 'double') return this.view.getFloat64(start, true);
      this.low = this.view.getUint32(start, true);
      this.high = size === 4 ? 0 : this.view.getUint32(start + 4, true);
      return join64(this.low, this.high, false);
    }
    this.varint(end);
    if (type === 'bool') return this.low !== 0 || this.high !== 0;
    if (type === 'int64' || type === 'uint64') return join64(this.low, this.high, type === 'int64');
    return type === 'uint32' ? this.low >>> 0 : this.low | 0;
  }

  private tag(end: number): { number: number; wire: number } {
    const start = this.offset;
    this.varint(end);
    const number = this.low >>> 3;
    if (this.high !== 0 || number === 0) this.fail('a field has no valid number', start);
    return { number, wire: this.low & 7 };
  }

  private skip(number: number, wire: number, end: number, start: number, depth: number): void {
    if (wire === VARINT) this.varint(end);
    else if (wire === FIXED64) this.take(8, end);
    else if (wire === DELIMITED) this.offset = this.delimited(end);
    else if (wire === FIXED32) this.take(4, end);
    else if (wire === GROUP) this.skipGroup(number, end, depth);
    else
      this.fail(
        `field ${number} has ${wire === GROUP_END ? 'an unopened group end' : 'an unknown type'}`,
        start,
      );
  }

  private skipGroup(number: number, end: number, depth: number): void {
    const open = [number];
    while (open.length > 0) {
      if (depth + open.length > this.limits.depth)
        this.fail(`groups are nested deeper than ${this.limits.depth}`);
      const start = this.offset;
      if (start >= end) this.fail('a group has no end');
      const tag = this.tag(end);
      if (tag.wire === GROUP) open.push(tag.number);
      else if (tag.wire !== GROUP_END) this.skip(tag.number, tag.wire, end, start, depth);
      else if (open.pop() !== tag.number) this.fail('a group ends with another number than it began', start);
    }
  }

  /** Returns the end of a length-delimited value and moves the offset to its first byte. */
  private delimited(end: number): number {
    const start = this.offset;
    this.varint(end);
    const left = end - this.offset;
    const length = join64(this.low, this.high, false);
    if (length > left) this.fail(`a length says ${length} bytes and ${left} are left`, start);
    return this.offset + length;
  }

  private take(length: number, end: number): Uint8Array {
    if (length > end - this.offset) this.fail(`expected ${length} bytes and ${end - this.offset} are left`);
    const bytes = this.bytes.subarray(this.offset, this.offset + length);
    this.offset += length;
    return bytes;
  }

  private varint(end: number): void {
    const start = this.offset;
    let low = 0;
    let high = 0;
    for (let shift = 0; shift < 70; shift += 7) {
      if (this.offset >= end) this.fail('a number is cut off', start);
      const byte = this.bytes[this.offset] ?? 0;
      this.offset += 1;
      const bits = byte & 0x7f;
      if (shift < 28) low |= bits << shift;
      else if (shift === 28) {
        low |= bits << 28;
        high = bits >>> 4;
      } else high |= bits << (shift - 32);
      if (byte < 0x80) {
        this.low = low >>> 0;
        this.high = high >>> 0;
        return;
      }
    }
    this.fail('a number is longer than ten bytes', start);
  }

  private countItem(): void {
    this.items += 1;
    if (this.items > this.limits.items)
      this.fail(`there are more than ${this.limits.items} messages and texts`);
  }

  private countNumbers(count: number): void {
    this.numbers += count;
    if (this.numbers > this.limits.numbers)
      this.fail(`there are more than ${this.limits.numbers} loose numbers`);
  }

  private fail(problem: string, offset = this.offset): never {
    throw badModel(`${this.what}: ${problem} (at byte ${offset})`);
  }
}

/** Whether a field's value can have this wire type. As in protobuf, other types make it an unknown field. */
function fits(field: Field, wire: number): boolean {
  if (typeof field.type === 'function' || !isNumberType(field.type)) return wire === DELIMITED;
  if (wire === DELIMITED) return field.repeated === true;
  const size = FIXED_BYTES[field.type];
  return wire === (size === undefined ? VARINT : size === 4 ? FIXED32 : FIXED64);
}
