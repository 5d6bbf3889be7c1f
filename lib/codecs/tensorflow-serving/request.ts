/**
 * Reads the bodies of TensorFlow Serving's REST API (tensorflow.org/tfx/serving/api_rest). Values stay JSON until the model's
 * inputs are known.
 */

import { badInput, badRequest } from '../../contract/errors.ts';
import { JsonNumbers } from '../../contract/json-numbers.ts';
import { LIMITS, overLimit } from '../../contract/limits.ts';
import { elementAt } from '../../contract/present.ts';
import { decodeBase64 } from '../base64.ts';
import { isObject, readJson } from '../instances.ts';
import { EACH, type Place, parseNumbers } from '../numbers/parse.ts';
import { kindOf, quoteNames, quoteValue } from '../quote.ts';

export type Verb = 'predict' | 'classify' | 'regress';

/** The name under which a model of TensorFlow has its signature. */
export const DEFAULT_SIGNATURE = 'serving_default';

/** Its other name: what it does. */
export function methodOf(verb: Verb): string {
  return `tensorflow/serving/${verb}`;
}

export interface ServingRequest {
  readonly signature: string | undefined;
  /** The list whose elements are the rows; undefined in the columnar form. */
  readonly list: 'instances' | 'examples' | undefined;
  /** The values of each input, in the row form as a list; undefined is the name of the only input. */
  readonly values: ReadonlyMap<string | undefined, unknown>;
}

/** @throws bad_request for the form, too_large over LIMITS.instances */
export function decodeServing(body: Uint8Array | string, verb: Verb): ServingRequest {
  const example = verb === 'predict' ? PREDICT : EXAMPLES;
  const { parsed } = readJson(body, example, (text) => parseNumbers(text, NUMBERS));
  if (!isObject(parsed)) throw badRequest(`the body: expected an object, got ${kindOf(parsed)}`);
  const signature = parsed['signature_name'];
  if (signature !== undefined && typeof signature !== 'string')
    throw badRequest(`"signature_name": expected a text, got ${quoteValue(signature)}`);
  const request = { signature: signature || undefined };
  if (verb !== 'predict') {
    const { context = {}, examples } = parsed;
    const merged = withContext(rowsOf(examples, 'examples'), context);
    return { ...request, list: 'examples', values: columnsOf(merged, 'examples') };
  }
  const { instances, inputs } = parsed;
  if ((instances === undefined) === (inputs === undefined))
    throw badRequest(`expected either "instances" or "inputs": ${PREDICT}`);
  if (instances === undefined)
    return {
      ...request,
      list: undefined,
      values: isNamedRow(inputs) ? new Map(Object.entries(inputs)) : onlyOf(inputs),
    };
  if (instances instanceof JsonNumbers) {
    assertRows(elementAt(instances.shape, 0, 'instances.shape'), 'instances');
    return { ...request, list: 'instances', values: onlyOf(instances) };
  }
  const rows = rowsOf(instances, 'instances');
  if (isNamedRow(rows[0])) return { ...request, list: 'instances', values: columnsOf(rows, 'instances') };
  const named = rows.findIndex(isNamedRow);
  if (named !== -1)
    throw badRequest(`instances[${named}]: expected a value as instances[0] is, got an object of inputs`);
  return { ...request, list: 'instances', values: onlyOf(rows) };
}

const PREDICT = '{"instances": [...]} or {"inputs": ...}';
const EXAMPLES = '{"examples": [{"<input>": <value or list>}]}';

/** Where numbers without names are. */
const NUMBERS: readonly Place[] = [['instances'], ['inputs'], ['inputs', EACH]];

function rowsOf(list: unknown, name: 'instances' | 'examples'): readonly unknown[] {
  if (!Array.isArray(list)) throw badRequest(`"${name}": expected a list, got ${kindOf(list)}`);
  if (list.length === 0) throw badRequest(`"${name}" is empty`);
  assertRows(list.length, name);
  return list;
}

function assertRows(rows: number, name: 'instances' | 'examples'): void {
  if (rows > LIMITS.instances) throw overLimit('instances', `${rows} ${name} are`, 'a request');
}

/** Each example with what they share, as if it were written in each: so large the body may be. */
function withContext(examples: readonly unknown[], context: unknown): readonly unknown[] {
  if (!isObject(context)) throw badRequest(`"context": expected an object, got ${kindOf(context)}`);
  const names = Object.keys(context);
  const least = examples.length * sizeOf(Object.values(context));
  if (least > LIMITS.httpBodyBytes)
    throw overLimit(
      'httpBodyBytes',
      `"context" in each of ${examples.length} examples has ${least} bytes and more, which are`,
    );
  return examples.map((example, at) => {
    if (!isObject(example)) return example;
    const twice = names.filter((name) => Object.hasOwn(example, name));
    if (twice.length === 0) return { ...context, ...example };
    throw badRequest(`examples[${at}]: ${quoteNames(twice)} is in "context" as well`);
  });
}

/** The least number of characters in a value. Deeper lists are refused when they become a tensor. */
function sizeOf(value: unknown, levels: number = LIMITS.tensorRank): number {
  if (Array.isArray(value))
    return levels > 0 ? value.reduce<number>((sum, one) => sum + sizeOf(one, levels - 1), 1) : 1;
  return typeof value === 'string' ? value.length + 1 : isBytes(value) ? value.b64.length : 1;
}

function onlyOf(value: unknown): ReadonlyMap<undefined, unknown> {
  return new Map([[undefined, value]]);
}

/** True if a value is an object of inputs by name. */
function isNamedRow(value: unknown): value is Record<string, unknown> {
  return isObject(value) && !isBytes(value) && !(value instanceof JsonNumbers);
}

/** The values of each input, in the order of the rows. */
function columnsOf(rows: readonly unknown[], list: 'instances' | 'examples'): Map<string, unknown[]> {
  const [first] = rows;
  const names = isObject(first) ? Object.keys(first) : [];
  if (names.length > LIMITS.inputsPerRecord)
    throw overLimit('inputsPerRecord', `${list}[0]: ${names.length} inputs are`);
  const columns = new Map<string, unknown[]>(names.map((name) => [name, []]));
  for (const [at, row] of rows.entries()) {
    if (!isNamedRow(row))
      throw badRequest(`${list}[${at}]: expected an object of inputs by name, got ${kindOf(row)}`);
    const keys = Object.keys(row);
    if (keys.length !== names.length || !names.every((name) => Object.hasOwn(row, name)))
      throw badRequest(
        `${list}[${at}]: expected [${quoteNames(names)}] as ${list}[0] has, got [${quoteNames(keys)}]`,
      );
    for (const [name, column] of columns) column.push(row[name]);
  }
  return columns;
}

/** True if a value is `{"b64": text}` and nothing else. */
export function isBytes(value: unknown): value is { readonly b64: string } {
  return isObject(value) && typeof value['b64'] === 'string' && Object.keys(value).length === 1;
}

const utf8 = /* @__PURE__ */ new TextDecoder('utf-8', { fatal: true, ignoreBOM: true });

/** A nested value with each element changed. Deeper lists than a tensor has are left: they are refused when they become one. */
export function mapElements(
  value: unknown,
  change: (element: unknown) => unknown,
  levels: number = LIMITS.tensorRank,
): unknown {
  if (!Array.isArray(value)) return change(value);
  return levels > 0 ? value.map((one) => mapElements(one, change, levels - 1)) : value;
}

/**
 * The text of its bytes; other values unchanged.
 * @throws bad_input for bytes that are not UTF-8
 */
export function textOf(value: unknown): unknown {
  if (!isBytes(value)) return value;
  const bytes = decodeBase64(value.b64);
  try {
    return utf8.decode(bytes);
  } catch (error) {
    throw badInput('"b64": the bytes are not UTF-8, and the model takes texts', { cause: error });
  }
}
