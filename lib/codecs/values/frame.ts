/**
 * Frames on the pipes of a worker process: a length (u32, big-endian), a JSON header, and raw blocks whose lengths the
 * header lists as `blocks`. Every length is checked before memory is allocated for it, because the other process runs
 * code of a user. docs/reference/worker-protocol.md describes the format.
 */
import { parseText } from '../json.ts';

const MiB = 1024 * 1024;

export const FRAME_LIMITS = {
  headerBytes: MiB,
  /** The sum of all blocks of a frame. */
  blockBytes: 256 * MiB,
  blocks: 65_536,
  /** Items of a dict that is sent as a list of pairs, because it has a key of ours. */
  entries: 65_536,
} as const;

/** A frame, or a message in it, that breaks the protocol. The connection cannot be used any more. */
export class ProtocolError extends Error {
  constructor(message: string, options?: ErrorOptions) {
    super(message, options);
    this.name = 'ProtocolError';
  }
}

export type Header = Readonly<Record<string, unknown>>;

export interface Frame {
  readonly header: Header;
  /** Each begins at a multiple of 8 bytes in one memory that the frame owns, so that any typed array can view it. */
  readonly blocks: readonly Uint8Array[];
}

const LENGTH_BYTES = 4;
const ALIGNMENT = 8;

/**
 * @param header without `blocks`
 * @returns what to write, one chunk after the other; the blocks are among them, not copied
 * @throws RangeError when the header or the blocks are over a limit
 */
export function encodeFrame(header: Header, blocks: readonly Uint8Array[] = []): Uint8Array[] {
  const lengths = blocks.map(({ byteLength }) => byteLength);
  const problem = problemOfLengths(lengths);
  if (problem !== undefined) throw new RangeError(problem);
  const json = JSON.stringify(lengths.length > 0 ? { ...header, blocks: lengths } : header);
  const text = Buffer.from(json, 'utf8');
  if (text.byteLength > FRAME_LIMITS.headerBytes) throw new RangeError(tooLong(text.byteLength));
  const length = Buffer.alloc(LENGTH_BYTES);
  length.writeUInt32BE(text.byteLength);
  return [Buffer.concat([length, text]), ...blocks.filter(({ byteLength }) => byteLength > 0)];
}

type State =
  /** `into` receives the length. */
  | { readonly part: 'length'; readonly into: Uint8Array }
  | { readonly part: 'header'; readonly into: Uint8Array }
  | { readonly part: 'blocks'; readonly into: Uint8Array; readonly frame: Frame; readonly index: number };

/** Cuts a stream of bytes into frames, wherever the boundaries of its chunks are. Each byte is copied once. */
export class FrameDecoder {
  readonly #blockBytes: number;
  #state: State = start();
  #filled = 0;

  /** @param blockBytes the limit of all blocks of a frame together */
  constructor(blockBytes: number = FRAME_LIMITS.blockBytes) {
    this.#blockBytes = blockBytes;
  }

  /**
   * Yields the frames that `chunk` completes, also those in front of a malformed one. The chunk is read as far as the
   * frames are taken.
   * @throws ProtocolError; the decoder cannot be used afterwards
   */
  *push(chunk: Uint8Array): Generator<Frame, void> {
    let at = 0;
    do {
      const { into } = this.#state;
      const count = Math.min(into.byteLength - this.#filled, chunk.byteLength - at);
      into.set(chunk.subarray(at, at + count), this.#filled);
      at += count;
      this.#filled += count;
      if (this.#filled < into.byteLength) break;
      const frame = this.#advance();
      if (frame) yield frame;
      // A block without bytes is complete although no byte is left.
    } while (at < chunk.byteLength || this.#state.into.byteLength === 0);
  }

  /** Call it when the stream has ended. @throws ProtocolError when it ended within a frame */
  end(): void {
    if (this.#state.part !== 'length' || this.#filled > 0) throw malformed('it is cut off');
  }

  #advance(): Frame | undefined {
    const state = this.#state;
    this.#filled = 0;
    if (state.part === 'length') {
      this.#state = { part: 'header', into: new Uint8Array(headerLength(state.into)) };
      return undefined;
    }
    const frame = state.part === 'header' ? readHeader(state.into, this.#blockBytes) : state.frame;
    const index = state.part === 'header' ? 0 : state.index + 1;
    const into = frame.blocks[index];
    this.#state = into === undefined ? start() : { part: 'blocks', into, frame, index };
    return into === undefined ? frame : undefined;
  }
}

function start(): State {
  return { part: 'length', into: new Uint8Array(LENGTH_BYTES) };
}

function headerLength(bytes: Uint8Array): number {
  const length = new DataView(bytes.buffer, bytes.byteOffset).getUint32(0);
  if (length === 0) throw malformed('the header is empty');
  if (length > FRAME_LIMITS.headerBytes) throw malformed(tooLong(length));
  return length;
}

function readHeader(bytes: Uint8Array, blockBytes: number): Frame {
  const header = parseObject(bytes);
  const lengths = Object.hasOwn(header, 'blocks') ? header['blocks'] : [];
  if (!Array.isArray(lengths)) throw malformed('blocks is not a list');
  const problem = problemOfLengths(lengths, blockBytes);
  if (problem !== undefined) throw malformed(problem);
  return { header, blocks: allocateBlocks(lengths) };
}

function parseObject(bytes: Uint8Array): Header {
  let header: unknown;
  try {
    header = parseJson(bytes);
  } catch (error) {
    throw malformed('the header is not JSON', error);
  }
  if (typeof header !== 'object' || header === null || Array.isArray(header)) {
    throw malformed('the header is not an object');
  }
  // A JSON object has only strings as keys.
  return header as Header;
}

const UTF8 = new TextDecoder('utf-8', { fatal: true, ignoreBOM: true });

/** A value of 64 levels takes at most three JSON levels for each, as a dict with a key `$t` does. */
const JSON_DEPTH = 200;

/** @throws for bytes that are not UTF-8 or no JSON, or nested deeper than any value */
export function parseJson(bytes: Uint8Array): unknown {
  return parseText(UTF8.decode(bytes), JSON_DEPTH, Infinity);
}

/** `parseJson` of a client's bytes. @throws too_large, too, where they are made of too many parts */
export function parseRequest(bytes: Uint8Array): unknown {
  return parseText(UTF8.decode(bytes), JSON_DEPTH);
}

function problemOfLengths(
  lengths: readonly unknown[],
  blockBytes: number = FRAME_LIMITS.blockBytes,
): string | undefined {
  if (lengths.length > FRAME_LIMITS.blocks) {
    return `${lengths.length} blocks are over the limit of ${FRAME_LIMITS.blocks}`;
  }
  let total = 0;
  for (const length of lengths) {
    if (!isCount(length)) return `the length of a block is ${JSON.stringify(length)}`;
    total += length;
    if (total > blockBytes) {
      return `the blocks are over the limit of ${blockBytes} bytes`;
    }
  }
  return undefined;
}

/** A whole number that is not negative. */
export function isCount(value: unknown): value is number {
  return typeof value === 'number' && Number.isSafeInteger(value) && value >= 0;
}

/** One memory for all blocks: it is allocated once the sum of their lengths is known to be within the limit. */
function allocateBlocks(lengths: readonly number[]): Uint8Array[] {
  let end = 0;
  const offsets = lengths.map((length) => {
    const offset = end;
    end += Math.ceil(length / ALIGNMENT) * ALIGNMENT;
    return offset;
  });
  // Not from Node's shared pool; every byte that is seen has been written before.
  const { buffer } = Buffer.allocUnsafeSlow(end);
  return lengths.map((length, i) => new Uint8Array(buffer, offsets[i], length));
}

function tooLong(bytes: number): string {
  return `a header of ${bytes} bytes is over the limit of ${FRAME_LIMITS.headerBytes}`;
}

function malformed(problem: string, cause?: unknown): ProtocolError {
  return new ProtocolError(`malformed frame: ${problem}`, cause === undefined ? undefined : { cause });
}
