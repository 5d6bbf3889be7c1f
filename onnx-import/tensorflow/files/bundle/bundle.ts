/**
 * Reads tensors by key from TensorFlow's variable files, `<prefix>.index` and `<prefix>.data-*`. The index gives
 * shard numbers and byte offsets; both are checked before a file is opened or memory is allocated.
 */
import { badModel, ServingError } from '../../../../lib/contract/errors.ts';
import {
  bytesPerElement,
  type NumericDType,
  type Tensor,
  type TypedArray,
} from '../../../../lib/contract/tensor.ts';
import { readMessage } from '../../../wire/binary.ts';
import { has, messageOf, messagesOf, numberOf } from '../../../wire/message.ts';
import type { Message } from '../../../wire/table.ts';
import type { ModelFolder } from '../folder.ts';
import { BUNDLE_ENTRY, BUNDLE_HEADER } from '../tables.ts';
import { countElements, decodeContent, readFixedShape, splitTexts } from '../tensor.ts';
import { type Storage, storageOf } from '../types.ts';
import { crc32c, maskCrc } from './crc32c.ts';
import { assemble, fits, parseSlice, type Slice, shapeOf, sliceKey, toSlice, wholeSlice } from './slices.ts';
import { keyOf, readTable } from './table.ts';

const MAX_SHARDS = 10_000;
const MAX_PIECES = 10_000;

/** How many variables an error names. */
const SHOWN = 5;

export class Bundle {
  /** The variables that could not be read, by the problem and its file. */
  private readonly damaged = new Map<string, string[]>();
  /** The index file, for error messages. */
  readonly file: string;
  private readonly folder: ModelFolder;
  private readonly prefix: string;
  private readonly entries: ReadonlyMap<string, Uint8Array>;
  private readonly shards: number;

  /** @param prefix path of the files within the folder, without `.index` */
  constructor(folder: ModelFolder, prefix: string) {
    this.folder = folder;
    this.prefix = prefix;
    this.file = `${prefix}.index`;
    this.entries = readTable(folder.read(this.file), this.file);
    const header = this.entries.get('');
    if (header === undefined) this.fail('it has no header');
    const message = readMessage(header, BUNDLE_HEADER, { what: this.file });
    if (numberOf(message, 'endianness') !== 0)
      this.fail('its numbers are big-endian, which is not supported');
    this.shards = numberOf(message, 'num_shards');
    if (this.shards < 1 || this.shards > MAX_SHARDS) {
      this.fail(`it says ${this.shards} data files, 1 to ${MAX_SHARDS} are possible`);
    }
  }

  has(name: string): boolean {
    return name !== '' && this.entries.has(keyOf(name));
  }

  /**
   * Reads the tensor `name`, or the part of it that `part` specifies (RestoreV2's shape_and_slice).
   * @throws bad_model naming the file and the variable
   */
  read(name: string, part = ''): Tensor {
    try {
      return this.readPart(name, part);
    } catch (error) {
      if (error instanceof DamagedFile) {
        const names = this.damaged.get(error.problem);
        if (names) names.push(name);
        else this.damaged.set(error.problem, [name]);
      }
      if (!(error instanceof ServingError) || error.code !== 'bad_model') throw error;
      throw badModel(`${this.file}: variable "${name}": ${error.message}`, {
        cause: error,
      });
    }
  }

  /** @throws bad_model, one error for all requested variables in missing or damaged files */
  assertWhole(): void {
    if (this.damaged.size === 0) return;
    const problems = [...this.damaged].map(([problem, names]) => {
      const more = names.length > SHOWN ? ` and ${names.length - SHOWN} more` : '';
      return `${problem} (needed for ${names.slice(0, SHOWN).join(', ')}${more})`;
    });
    const more = problems.length > SHOWN ? `; and ${problems.length - SHOWN} files more` : '';
    throw badModel(`${problems.slice(0, SHOWN).join('; ')}${more}. Copy all files of the model again`);
  }

  private readPart(name: string, part: string): Tensor {
    const entry = this.entry(keyOf(name));
    const storage = storageOf(numberOf(entry, 'dtype'));
    const shape = readFixedShape(messageOf(entry, 'shape'));
    const asked = parseSlice(part);
    if (asked !== undefined && asked.shape.join() !== shape.join()) {
      throw badModel(`its shape is [${shape.join(',')}], expected [${asked.shape.join(',')}]`);
    }
    const slice = asked?.slice ?? wholeSlice(shape);
    const slices = messagesOf(entry, 'slices');
    const whole = shapeOf(slice).join() === shape.join();
    const { dtype } = storage;
    if (slices.length === 0 && (whole || dtype === 'string')) {
      return { dtype, shape, data: this.content(entry, storage, countElements(shape)) } as Tensor;
    }
    if (dtype === 'string') throw badModel('texts in pieces are not supported');
    const pieces =
      slices.length === 0
        ? [{ slice: wholeSlice(shape), data: this.numbers(entry, storage, shape) }]
        : this.pieces(name, entry, shape, slice);
    return { dtype, shape: shapeOf(slice), data: assemble(pieces, slice, dtype) };
  }

  /** The pieces of a partitioned variable that overlap with `wanted`. */
  private pieces(
    name: string,
    whole: Message,
    shape: readonly number[],
    wanted: Slice,
  ): { slice: Slice; data: TypedArray }[] {
    const slices = messagesOf(whole, 'slices');
    const dtype = numberOf(whole, 'dtype');
    if (slices.length > MAX_PIECES) throw badModel(`it is in more than ${MAX_PIECES} pieces`);
    const pieces: { slice: Slice; data: TypedArray }[] = [];
    for (const message of slices) {
      const extents = messagesOf(message, 'extent').map((extent) => ({
        start: numberOf(extent, 'start'),
        length: has(extent, 'length') ? numberOf(extent, 'length') : -1,
      }));
      const slice = toSlice(extents, shape);
      if (!fits(slice, shape)) throw badModel('one of its pieces is outside of it');
      if (!overlaps(slice, wanted)) continue;
      const entry = this.entry(sliceKey(name, extents));
      const own = readFixedShape(messageOf(entry, 'shape'));
      if (own.join() !== shapeOf(slice).join() || numberOf(entry, 'dtype') !== dtype) {
        throw badModel('one of its pieces has another shape or type than the index says');
      }
      pieces.push({ slice, data: this.numbers(entry, storageOf(dtype), own) });
    }
    return pieces;
  }

  private numbers(entry: Message, storage: Storage, shape: readonly number[]): TypedArray {
    return this.content(entry, storage, countElements(shape)) as TypedArray;
  }

  private content(entry: Message, storage: Storage, count: number): TypedArray | readonly string[] {
    const size = numberOf(entry, 'size');
    const { dtype } = storage;
    const expected = dtype === 'string' ? size : count * elementBytes(dtype, storage);
    if (size !== expected) throw badModel(`it has ${size} bytes, its shape says ${expected}`);
    const { file, bytes } = this.bytesOf(entry);
    if (dtype === 'string') {
      return splitTexts(bytes, count, 4).map((text) => Buffer.from(text).toString('utf8'));
    }
    if (has(entry, 'crc32c') && maskCrc(crc32c(bytes)) !== numberOf(entry, 'crc32c')) {
      throw new DamagedFile(
        `its bytes in ${file} do not have their checksum`,
        `${file} is damaged: bytes do not have their checksum`,
      );
    }
    return decodeContent(bytes, storage, count);
  }

  /** The raw bytes of a scalar string, such as the object graph. */
  readBytes(name: string): Uint8Array | undefined {
    if (!this.has(name)) return undefined;
    const entry = this.entry(keyOf(name));
    if (storageOf(numberOf(entry, 'dtype')).dtype !== 'string') return undefined;
    return splitTexts(this.bytesOf(entry).bytes, 1, 4)[0];
  }

  private bytesOf(entry: Message): { file: string; bytes: Uint8Array } {
    const shard = numberOf(entry, 'shard_id');
    if (shard < 0 || shard >= this.shards) {
      throw badModel(`it is in data file ${shard}, there are ${this.shards}`);
    }
    const file = `${this.prefix}.data-${pad(shard)}-of-${pad(this.shards)}`;
    if (!this.folder.has(file)) throw new DamagedFile(`${file} is missing`, `${file} is missing`);
    try {
      return { file, bytes: this.folder.readPart(file, numberOf(entry, 'offset'), numberOf(entry, 'size')) };
    } catch (error) {
      if (!(error instanceof ServingError)) throw error;
      throw new DamagedFile(error.message, `${file} is damaged or cut off`);
    }
  }

  private entry(key: string): Message {
    const value = this.entries.get(key);
    if (value === undefined) throw badModel('it, or a piece of it, is not there');
    return readMessage(value, BUNDLE_ENTRY);
  }

  private fail(problem: string): never {
    throw badModel(`${this.file}: ${problem}`);
  }
}

/** Every variable in a damaged file fails, so the file is reported once. */
class DamagedFile extends ServingError {
  readonly problem: string;

  constructor(message: string, problem: string) {
    super('bad_model', message);
    this.problem = problem;
  }
}

function elementBytes(dtype: NumericDType, storage: Storage): number {
  return storage.half === undefined ? bytesPerElement(dtype) : 2;
}

function overlaps(a: Slice, b: Slice): boolean {
  return a.every(({ start, length }, axis) => {
    const other = b[axis] ?? { start: 0, length: 0 };
    return start < other.start + other.length && other.start < start + length;
  });
}

function pad(number: number): string {
  return String(number).padStart(5, '0');
}
