/**
 * Reads and writes messages of protocol buffers by tables of their fields. An entry apart from index.ts for the service's
 * gRPC, which knows no model formats.
 */
export { readMessage } from './wire/binary.ts';
export { bytes, type Chunk, integer, message, text } from './wire/chunk.ts';
export type { Field, Message, MessageMap, ScalarType, Table } from './wire/table.ts';
