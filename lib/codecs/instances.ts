/**
 * Reads the instances of a POST /predict body. Values stay JSON, because only the model knows whether "abc" is text or
 * a base64 image (lib/pipeline/bind/bind.ts).
 */
import { asError, badRequest, ServingError } from '../contract/errors.ts';
import { isInfinity, JsonNumbers, jsonValue } from '../contract/json-numbers.ts';
import { LIMITS, overLimit } from '../contract/limits.ts';
import { suggest } from '../contract/suggest.ts';
import type { Binding, Inputs, Value } from '../contract/values.ts';
import { type DataframeKey, dataframeKey, readDataframe } from './dataframe.ts';
import { objectText, parseExactly, parseText } from './json.ts';
import { keysInOrder } from './key-order.ts';
import { kindOf, quoteName, quoteNames, quoteValue } from './quote.ts';
import { decodeUtf8 } from './utf8.ts';

const EXAMPLE = '{"instances":[{"<input>":<number, text, base64 image, nested array or sparse tensor>}]}';

/** A byte order mark is skipped, as RFC 8259 allows and decoding bytes does too. */
const BYTE_ORDER_MARK = 0xfeff;

/**
 * @throws bad_request when the bytes are not UTF-8 or not JSON; for an empty body it says that `example` was expected
 */
export function parseJson(body: Uint8Array | string, example = EXAMPLE): unknown {
  return readJson(body, example).parsed;
}

/** Reads JSON, as parseText does. */
export type Parse = (text: string) => unknown;

/** `parseJson` with the text that was parsed. */
export function readJson(
  body: Uint8Array | string,
  example = EXAMPLE,
  parse: Parse = parseText,
): { readonly text: string; readonly parsed: unknown } {
  const text = bodyText(body, example);
  try {
    return { text, parsed: parse(text) };
  } catch (error) {
    if (error instanceof ServingError) throw new ServingError(error.code, `the body is ${error.message}`);
    throw badRequest(`the body is not JSON: ${asError(error).message}`);
  }
}

/** @throws bad_request when the bytes are not UTF-8, or nothing but white space */
export function bodyText(body: Uint8Array | string, example: string): string {
  let text = typeof body === 'string' ? body : decodeUtf8(body);
  if (text === undefined) throw badRequest('the body is not valid UTF-8');
  if (text.charCodeAt(0) === BYTE_ORDER_MARK) text = text.slice(1);
  if (text.trim() === '') throw badRequest(`the body is empty; expected ${example}`);
  return text;
}

/**
 * `{"instances":[{name: value, ...}, ...]}` as records, whose names have the order of the text. Integers keep their digits.
 * @throws bad_request naming what is missing; too_large over LIMITS.instances
 */
export function decodeInstances(
  body: Uint8Array | string,
  parse: Parse = parseExactly,
  binding?: Binding,
): Inputs[] {
  const { text, parsed } = readJson(body, EXAMPLE, parse);
  return instancesOf(parsed, text, binding);
}

/** Beside `instances`: whether several inputs bind in their order; false: not even one does. */
export const BY_POSITION = 'bindByPosition';

function bindingOf(body: unknown, otherwise: Binding | undefined): Binding | undefined {
  const byPosition = isObject(body) ? body[BY_POSITION] : undefined;
  if (byPosition === undefined) return otherwise;
  if (typeof byPosition === 'boolean') return byPosition ? 'position' : 'name';
  throw badRequest(`"${BY_POSITION}": expected true or false, got ${quoteValue(byPosition)}`);
}

export function withBinding(inputs: Inputs, binding: Binding | undefined): Inputs {
  return binding === undefined ? inputs : Object.assign(inputs, { binding });
}

/** The key under which a body has its records; `inputs` and the tables of MLflow have them by column. */
export function recordsKey(parsed: unknown): 'instances' | 'inputs' | DataframeKey {
  if (!isObject(parsed) || parsed['instances'] !== undefined) return 'instances';
  return parsed['inputs'] === undefined ? (dataframeKey(parsed) ?? 'instances') : 'inputs';
}

/** True if a body's instances are objects of inputs by name, as the contract defines them, not bare values. */
export function hasNames(parsed: unknown): boolean {
  const instances = isObject(parsed) ? parsed['instances'] : undefined;
  return Array.isArray(instances) && isObject(instances[0]) && !(instances[0] instanceof JsonNumbers);
}

/**
 * The rows of `"inputs"`: those of each column, or of the only input. A value that is not an array is one row, or
 * shared by all.
 * @throws bad_request, too_large
 */
function rowsOf(inputs: unknown): unknown[] {
  if (!isObject(inputs)) return Array.isArray(inputs) ? inputs.map(assertNoTensor) : [inputs];
  const columns = Object.entries(inputs);
  const [rows = 1, other] = new Set(
    columns.flatMap(([, held]) => (Array.isArray(held) ? [held.length] : [])),
  );
  if (other !== undefined) throw badRequest(`"inputs": one column has ${rows} rows, another has ${other}`);
  if (rows > LIMITS.instances) throw overLimit('instances', `${rows} rows are`, 'a request');
  return Array.from({ length: rows }, (_, row) =>
    Object.fromEntries(columns.map(([name, held]) => [name, Array.isArray(held) ? held[row] : held])),
  );
}

function assertNoTensor(row: unknown): unknown {
  if (!isObject(row) || !Object.hasOwn(row, 'name') || !Object.hasOwn(row, 'data')) return row;
  throw badRequest('"inputs" has tensors with a name and data, which POST /v2/models/{job}/infer takes');
}

/**
 * `decodeInstances` of a text that is parsed already.
 * @param otherwise how the inputs bind where the body does not say it
 */
export function instancesOf(parsed: unknown, text: string, otherwise?: Binding): Inputs[] {
  const key = recordsKey(parsed);
  const body = isObject(parsed) ? parsed : {};
  const isTable = key !== 'instances' && key !== 'inputs';
  const table = isTable ? readDataframe(key, body[key], text) : undefined;
  const instances = table?.rows ?? (key === 'inputs' ? rowsOf(body[key]) : body[key]);
  if (!Array.isArray(instances)) {
    const keys = instances === undefined ? Object.keys(body) : [];
    const near = keys.slice(0, 8).find((each) => suggest(each, ['instances']) !== undefined);
    const hint = near === undefined ? '' : `; did you mean "instances" for ${quoteName(near)}?`;
    throw badRequest(
      `no "instances" array in the body (got ${whatCame(parsed)}); expected ${EXAMPLE}${hint}`,
    );
  }
  if (instances.length === 0) throw badRequest(`"${key}" is empty; expected ${EXAMPLE}`);
  if (instances.length > LIMITS.instances) {
    throw overLimit('instances', `${instances.length} instances are`, 'a request');
  }
  const keysOf = table?.keysOf ?? keysInOrder(text, 'instances');
  const binding = bindingOf(parsed, otherwise);
  return instances.map((instance: unknown, index) =>
    withBinding(
      decodeInstance(instance, `${key}[${index}]`, (object) => keysOf(object, index)),
      binding,
    ),
  );
}

function whatCame(parsed: unknown): string {
  if (!isObject(parsed)) return kindOf(parsed);
  if (parsed['instances'] !== undefined) return `${kindOf(parsed['instances'])} there`;
  return `the keys [${quoteNames(Object.keys(parsed))}]`;
}

/** Adds the instance's index to an error that fails the whole request. */
export function inInstance(error: ServingError, index: number, count: number): ServingError {
  const where = count > 1 ? `instances[${index}]: ` : '';
  return new ServingError(error.code, where + error.message, { cause: error });
}

/** The name of a value that came without one. It is near to the name of no input, and binds because it is the only one. */
export const UNNAMED = '(value)';

/** One JSON object `{name: value}`, or the value of the only input, as a record; `where` names it in errors. */
function decodeInstance(
  instance: unknown,
  where: string,
  keysOf: (object: Record<string, unknown>) => string[],
): Inputs {
  if (instance === null || instance === undefined)
    throw badRequest(`${where}: expected an object of inputs by name, or a value, got ${kindOf(instance)}`);
  if (!isObject(instance) || instance instanceof JsonNumbers)
    return new Map([[UNNAMED, jsonValue(instance)]]);
  const names = keysOf(instance);
  if (names.length === 0) {
    throw badRequest(`${where}: expected an object of inputs by name, got an empty one`);
  }
  if (names.length > LIMITS.inputsPerRecord) {
    throw overLimit('inputsPerRecord', `${where}: ${names.length} inputs are`);
  }
  const inputs = new Map<string, Value>();
  for (const name of names) {
    if (name.length > LIMITS.inputNameLength) throw longName(name, `${where}: `);
    inputs.set(name, jsonValue(instance[name]));
  }
  return inputs;
}

export function longName(name: string, where = ''): ServingError {
  return overLimit('inputNameLength', `${where}the name ${quoteName(name)} has ${name.length} characters,`);
}

/** JSON.stringify compares each level with all above it, so 6 kB of brackets take 6 ms. Nothing that is served is as deep. */
const MOST_LEVELS = 100;

/**
 * The JSON text of one instance, as in a message, its names in their order. It says how the inputs bind, because those of
 * an old client, which does not, may bind by position.
 * @throws bad_request for an input that is not JSON; too_large when it is nested too deeply to be written
 */
export function instanceText(inputs: Inputs): string {
  const values = Array.from(inputs, ([name, value]) => [name, jsonOf(name, value)] as const);
  let isPlain = true;
  for (const [, value] of values) isPlain = checkLevels(value, MOST_LEVELS) && isPlain;
  return `{"instances":[${objectText(values, isPlain ? undefined : fullText)}]${bindingText(inputs)}}`;
}

/**
 * Writes text that parseExactly reads as the same value. JSON.stringify writes -0 as 0 and infinities as null, and
 * refuses a bigint.
 */
function fullText(value: unknown): string {
  if (typeof value === 'number') {
    if (Number.isNaN(value)) return 'NaN';
    // It was a number too large, which stays one.
    if (!Number.isFinite(value)) return value > 0 ? '1e999' : '-1e999';
    return Object.is(value, -0) ? '-0.0' : String(value);
  }
  if (typeof value === 'bigint') return String(isInfinity(value) ? Number(value) : value);
  if (Array.isArray(value)) return `[${value.map(fullText).join(',')}]`;
  return isObject(value) ? objectText(Object.entries(value), fullText) : JSON.stringify(value);
}

/**
 * Returns true if JSON.stringify writes the value unchanged.
 * @throws too_large
 */
function checkLevels(value: unknown, levels: number): boolean {
  if (typeof value === 'number') return Number.isFinite(value) && !Object.is(value, -0);
  if (typeof value !== 'object' || value === null) return typeof value !== 'bigint';
  if (levels === 0) {
    throw new ServingError('too_large', `arrays are nested deeper than ${LIMITS.tensorRank} (tensorRank)`);
  }
  const held: readonly unknown[] = Array.isArray(value) ? value : Object.values(value);
  let isPlain = true;
  for (const one of held) isPlain = checkLevels(one, levels - 1) && isPlain;
  return isPlain;
}

function bindingText({ binding, size }: Inputs): string {
  if (binding === undefined && size === 1) return '';
  return `,"${BY_POSITION}":${binding === 'position'}`;
}

function jsonOf(name: string, value: Value): unknown {
  if (value.kind === 'json') return value.value;
  throw badRequest(`input ${quoteName(name)}: JSON and binary inputs do not mix`);
}

export function isObject(value: unknown): value is Record<string, unknown> {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}
