/**
 * In: a JSON file for the queue. Out: its records, or the request it is.
 * Trap: one record a line and one record over many lines both begin with a brace; the whole is tried first.
 */
import { ServingError } from '../lib/contract/errors.ts';
import type { QueueRecord } from '../sdk/index.ts';

export type Content = { readonly body: string } | { readonly records: readonly QueueRecord[] };

/** @param name what errors call the file. @throws bad_request naming the line or the record */
export function recordsOf(bytes: Buffer, name: string): Content {
  const text = bytes.toString('utf8').trim();
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
    // Whoever wrote one JSON text over many lines wants to hear of that text, not of its first line.
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
    return { value: JSON.parse(text) as unknown };
  } catch (error) {
    return { error: (error as Error).message };
  }
}

function isObject(value: unknown): value is Record<string, unknown> {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}
