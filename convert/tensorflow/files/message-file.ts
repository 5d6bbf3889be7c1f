/**
 * In: a file that holds one protobuf message, in either encoding. Out: the message.
 * Trap: the ending does not tell. Tools write text under `.pb`; a binary graph starts with a line feed, as text may.
 */
import { readMessage } from '../../wire/binary.ts';
import type { Message, Table } from '../../wire/table.ts';
import { readText } from '../../wire/text.ts';
import type { ModelFolder } from './folder.ts';

const LOOKED_AT = 512;
/** A field's name and what follows it; a comment before it is skipped. */
const TEXT = /^\s*(?:#[^\n]*\n\s*)*[a-z_]+\s*[{:<]/;

export function readMessageFile(folder: ModelFolder, file: string, table: Table): Message {
  const bytes = folder.read(file);
  if (file.endsWith('.pbtxt') || looksLikeText(bytes.subarray(0, LOOKED_AT))) {
    return readText(Buffer.from(bytes.buffer, bytes.byteOffset, bytes.length).toString('utf8'), table, {
      what: file,
    });
  }
  return readMessage(bytes, table, { what: file });
}

/** A binary message has other bytes below the space very soon: they are the tags of its fields. */
function looksLikeText(start: Uint8Array): boolean {
  if (start.some((byte) => byte < 32 && (byte < 9 || byte > 13))) return false;
  return TEXT.test(Buffer.from(start).toString('latin1'));
}
