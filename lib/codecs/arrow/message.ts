/**
 * Writes framed Arrow IPC messages (new framing, metadata V5). Every message and buffer starts at a multiple of 8,
 * because readers map buffers as they lie and some refuse misaligned ones.
 */
import {
  type FlatScalar,
  type FlatStructs,
  type FlatTable,
  scalar,
  table,
  text,
  vector,
  writeFlat,
} from './flatbuffers.ts';

/** Starts a message in the new framing; the old one starts with its length, which is never this large. */
export const CONTINUATION = 0xffff_ffff;
/** Continuation marker and metadata length. */
export const PREFIX_BYTES = 8;
/** What follows the last batch: the marker and a metadata length of 0. */
export const END_BYTES = 8;

export const SCHEMA = 1;
export const DICTIONARY_BATCH = 2;
export const RECORD_BATCH = 3;
/** Metadata V4 (Arrow 0.8, 2017) and V5 (1.0, 2020) lay out our types alike; older ones do not. */
export const V4 = 3;
export const V5 = 4;

export const align8 = (bytes: number): number => Math.ceil(bytes / 8) * 8;

/** The first message of a stream. */
export function schemaMessage(columns: readonly FlatTable[]): Uint8Array {
  return framed(table(scalar(2, V5), scalar(1, SCHEMA), table(undefined, vector(columns)), scalar(8, 0)));
}

interface BatchNumbers {
  readonly rows: FlatScalar;
  /** Length and null count of each node. */
  readonly nodes: FlatStructs;
  /** Offset (from the start of the body) and length of each buffer. */
  readonly buffers: FlatStructs;
  readonly bodyLength: FlatScalar;
}

/** The head of a record batch; its body follows. The numbers' `at` count from behind the prefix. */
export function batchMessage(
  numbers: BatchNumbers,
  metadata?: readonly [key: string, value: string],
): Uint8Array {
  const { rows, nodes, buffers, bodyLength } = numbers;
  const pairs = metadata === undefined ? undefined : vector([table(text(metadata[0]), text(metadata[1]))]);
  const header = table(rows, nodes, buffers);
  return framed(table(scalar(2, V5), scalar(1, RECORD_BATCH), header, bodyLength, pairs));
}

function framed(root: FlatTable): Uint8Array {
  const metadata = writeFlat(root);
  const message = new Uint8Array(PREFIX_BYTES + metadata.length);
  const view = new DataView(message.buffer);
  view.setUint32(0, CONTINUATION, true);
  view.setUint32(4, metadata.length, true);
  message.set(metadata, PREFIX_BYTES);
  return message;
}
