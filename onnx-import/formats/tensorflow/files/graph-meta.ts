/**
 * Reads the names of inputs and outputs from `graph_meta.json`. Another tool wrote the file; its other fields are
 * ignored.
 */
import { decodeUtf8, utf8Problem } from '../../../../lib/codecs/utf8.ts';
import { badModel } from '../../../../lib/contract/errors.ts';
import type { ModelFolder } from './folder.ts';
import { checkDistinct, type NamedTensor, named } from './names.ts';

const FILE = 'graph_meta.json';
const MAX_BYTES = 16 << 20;

interface GraphMeta {
  readonly inputs: readonly NamedTensor[];
  readonly outputs: readonly NamedTensor[];
}

export function readGraphMeta(folder: ModelFolder): GraphMeta | undefined {
  if (!folder.has(FILE)) return undefined;
  const bytes = folder.read(FILE);
  if (bytes.length > MAX_BYTES) fail(`it is larger than ${MAX_BYTES} bytes`);
  let json: unknown;
  const text = decodeUtf8(bytes);
  if (text === undefined) fail(utf8Problem(bytes));
  try {
    json = JSON.parse(text);
  } catch {
    fail('it is not valid JSON in UTF-8');
  }
  if (typeof json !== 'object' || json === null) fail('it is not an object');
  const inputs = namesOf(json, 'input_names');
  const outputs = namesOf(json, 'output_names');
  if (outputs.length === 0) fail('output_names is empty');
  checkDistinct(inputs, 'inputs');
  checkDistinct(outputs, 'outputs');
  return { inputs, outputs };
}

function namesOf(json: object, key: string): NamedTensor[] {
  const names: unknown = (json as Readonly<Record<string, unknown>>)[key];
  if (!Array.isArray(names) || !names.every((name) => typeof name === 'string' && name !== '')) {
    fail(`${key} must be a list of names, as ["input:0"]`);
  }
  return (names as string[]).map(named);
}

function fail(problem: string): never {
  throw badModel(`${FILE}: ${problem}`);
}
