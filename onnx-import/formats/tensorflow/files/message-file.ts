/**
 * Reads a protobuf message from a file in binary or text encoding. The file extension does not tell which: tools
 * write text to `.pb`, and a binary graph starts with a line feed, as a text may.
 */
import { readMessage } from '../../../wire/binary.ts';
import type { Message, Table } from '../../../wire/table.ts';
import { readText } from '../../../wire/text.ts';
import type { ModelFolder } from './folder.ts';

const LOOKED_AT = 512;
/** A field name and what follows it, after an optional comment. */
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

/** The tags of a binary message are control characters other than whitespace, and the first comes very soon. */
function looksLikeText(start: Uint8Array): boolean {
  if (start.some((byte) => byte < 32 && (byte < 9 || byte > 13))) return false;
  return TEXT.test(Buffer.from(start).toString('latin1'));
}
