/**
 * Reads input files: images, JSON requests, and records. The first bytes, not the name, decide whether a file is
 * JSON. One record per line and one record over many lines both begin with a brace, so the whole text is tried first.
 */
import { readFile, stat } from 'node:fs/promises';
import { buffer } from 'node:stream/consumers';
import { decodeUtf8, utf8Problem } from '../lib/codecs/utf8.ts';
import { asError, ServingError } from '../lib/contract/errors.ts';
import type { QueueRecord } from '../sdk/index.ts';

/** A file of records, which has to fit into memory several times. Refused: split it. */
const MAX_FILE_BYTES = 256 * 1024 * 1024;

/** A file, or stdin for "-". @throws bad_request naming the file */
export async function readInput(path: string): Promise<Buffer> {
  const stdin = path === '-' ? await buffer(process.stdin) : undefined;
  try {
    const size = stdin?.length ?? (await stat(path)).size;
    if (size <= MAX_FILE_BYTES) return stdin ?? (await readFile(path));
    const text = `${stdin ? 'stdin' : path}: ${size} bytes are over the limit of ${MAX_FILE_BYTES}`;
    throw new ServingError('too_large', text);
  } catch (error) {
    if (error instanceof ServingError) throw error;
    const text = `${path} cannot be read: ${asError(error).message}`;
    throw new ServingError('bad_request', text, { cause: error });
  }
}

/** The text of a file. @param name of it in errors. @throws bad_request naming the first line that is not UTF-8 */
export function inputText(bytes: Uint8Array, name: string): string {
  const text = decodeUtf8(bytes);
  if (text !== undefined) return text;
  throw new ServingError('bad_request', `${name}: ${utf8Problem(bytes)}`);
}

/** JSON texts begin with a bracket, after blanks and a byte order mark; images do not. */
export function isJson(bytes: Uint8Array): boolean {
  const head = Buffer.from(bytes.subarray(0, 1024)).toString('latin1');
  return /^(?:\xef\xbb\xbf|\xff\xfe|\xfe\xff)?[\s\0]*[[{]/.test(head);
}

export type Content = { readonly body: string } | { readonly records: readonly QueueRecord[] };

/** @param name of the file in errors. @throws bad_request naming the line or the record */
export function recordsOf(bytes: Buffer, name: string): Content {
  const text = inputText(bytes, name).trim();
  if (text === '') throw new ServingError('bad_request', `${name} is empty`);
  const whole = parse(text);
  if ('error' in whole) return { records: linesOf(text, name, whole.error) };
  if (isObject(whole.value) && 'instances' in whole.value) return { body: text };
  const values = Array.isArray(whole.value) ? whole.value : [whole.value];
  return { records: values.map((value, i) => recordOf(value, `${name}: record ${i}`)) };
}

function linesOf(text: string, name: string, wholeError: string): QueueRecord[] {
  const lines = text.split('\n');
  return lines.flatMap((line, i) => {
    if (line.trim() === '') return [];
    const parsed = parse(line);
    if ('value' in parsed) return [recordOf(parsed.value, `${name}: line ${i + 1}`)];
    // For one JSON text over many lines, the error is about that text, not about its first line.
    const why = i === 0 ? wholeError : `line ${i + 1}: ${parsed.error}`;
    throw new ServingError('bad_request', `${name} is not JSON, nor one JSON text a line: ${why}`);
  });
}

function recordOf(value: unknown, where: string): QueueRecord {
  if (isObject(value) && typeof value['uri'] === 'string' && isObject(value['inputs'])) {
    return { uri: value['uri'], inputs: value['inputs'] as QueueRecord['inputs'] };
  }
  const got = JSON.stringify(value)?.slice(0, 80);
  throw new ServingError('bad_request', `${where}: expected {"uri": "...", "inputs": {...}}, got ${got}`);
}

function parse(text: string): { readonly value: unknown } | { readonly error: string } {
  try {
    return { value: JSON.parse(text) };
  } catch (error) {
    return { error: asError(error).message };
  }
}

function isObject(value: unknown): value is Record<string, unknown> {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}
