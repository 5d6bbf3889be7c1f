/** Reads a row of a table as POST /predict reads it: NDJSON as one of `instances`, CSV as a line below its header. */
import { inputsOfRow, readColumns } from '../codecs/csv.ts';
import { CsvReader } from '../codecs/csv-reader.ts';
import { instancesOf } from '../codecs/instances.ts';
import { EACH, parseNumbers } from '../codecs/numbers/parse.ts';
import { decodeUtf8, utf8Problem } from '../codecs/utf8.ts';
import { asError, badRequest, ServingError } from '../contract/errors.ts';
import { elementAt } from '../contract/present.ts';
import type { Inputs } from '../contract/values.ts';
import type { Call } from './openai/call.ts';

/** A row as a record, or why it is none; or a request of a batch. */
export type Slot = Inputs | ServingError | Call;

/** Values by name, or a value, as `instances` holds them. */
const PLACES = [[EACH]];

export function readNdjsonRow(bytes: Uint8Array): Inputs | ServingError {
  return attempt(() => {
    const text = textOf(bytes).trim();
    const value = parse(text);
    return elementAt(instancesOf({ instances: [value] }, `{"instances":[${text}]}`), 0, 'instances');
  });
}

function parse(text: string): unknown {
  try {
    return parseNumbers(text, PLACES);
  } catch (error) {
    if (error instanceof ServingError) throw error;
    throw badRequest(`the line is not JSON: ${asError(error).message}`);
  }
}

export function readCsvRow(bytes: Uint8Array, columns: readonly string[]): Inputs | ServingError {
  return attempt(() => {
    const cells = new CsvReader(textOf(bytes)).read(columns.length)?.cells ?? [''];
    if (cells.length === columns.length) return inputsOfRow(columns, cells);
    const count = cells.length > columns.length ? `at least ${cells.length}` : cells.length;
    throw badRequest(`${count} cells, expected ${columns.length} as in the first line`);
  });
}

/** The names of the columns, in the first row of a CSV. @throws bad_request, too_large */
export function readHeader(bytes: Uint8Array): readonly string[] {
  const text = decodeUtf8(bytes);
  if (text === undefined) throw badRequest(utf8Problem(bytes));
  return readColumns(text);
}

function textOf(bytes: Uint8Array): string {
  const text = decodeUtf8(bytes);
  if (text === undefined) throw badRequest('the row is not valid UTF-8');
  return text;
}

/** The row is alone, so neither its index nor a line says anything. */
function attempt(read: () => Inputs): Inputs | ServingError {
  try {
    return read();
  } catch (error) {
    const { code, message } = ServingError.from(error);
    return new ServingError(code, message.replace(/^instances\[0\](: )?|, in line \d+$/g, ''), {
      cause: error,
    });
  }
}
