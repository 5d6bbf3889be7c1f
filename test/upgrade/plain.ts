/** Answers as JSON that can be compared between versions: without times, random ids and wording. */
import { createHash } from 'node:crypto';
import type { APIGatewayProxyStructuredResultV2 } from 'aws-lambda';
import type { ServingError } from '../../lib/contract/errors.ts';
import type { NamedTensor, Result } from '../../sdk/index.ts';
import { STORED_AT } from './stored.ts';

/** Stored times unchanged; any other is the time of the test. */
function timeOf(ms: number): string {
  return ms === STORED_AT || ms === 0 ? new Date(ms).toISOString() : 'now';
}

/** As one line, `float32 [3] 1 2.5 NaN`, which also holds NaN, -0 and bigints. */
function plainTensor({ dtype, shape, data }: NamedTensor): string {
  const elements = Array.from(data as ArrayLike<number | bigint | string>, (element) => {
    if (typeof element === 'string') return JSON.stringify(element);
    return Object.is(element, -0) ? '-0' : String(element);
  });
  return `${dtype} [${shape.join(',')}] ${elements.join(' ')}`;
}

/** The values of a result. */
export function plainValues(result: Result | undefined): unknown {
  if (result === undefined) return undefined;
  const { outputs, filtered } = result;
  return filtered ?? Object.fromEntries(outputs.map((output) => [output.name, plainTensor(output)]));
}

export function plainResult(result: Result | undefined): unknown {
  if (result === undefined) return 'nothing';
  const { uri, filtered, model, finishedAt } = result;
  const values = plainValues(result);
  const made = filtered === undefined ? { outputs: values } : { filtered: values };
  return { uri, model, finishedAt: timeOf(finishedAt), ...made };
}

/** The text of a record's own error is stored data and is compared; other errors may be worded differently. */
export function plainFailure(error: unknown): unknown {
  if (typeof error !== 'object' || error === null || !('code' in error)) throw error;
  const { code, message, uri } = error as ServingError;
  return uri === undefined ? { code } : { code, uri, message };
}

/** The result or the error of a call. */
export async function plainOutcome(call: Promise<Result | undefined>): Promise<unknown> {
  return call.then(plainResult, plainFailure);
}

/** The fields of a stored result that readers depend on; of its error only the code. */
export function plainFields(fields: Readonly<Record<string, string>>): unknown {
  const { status, value = '', outputs, exact = '', model, error } = fields;
  const { code } = JSON.parse(error ?? '{}') as { code?: string };
  return { status, value: digest(value), outputs, exact: digest(exact), model, code };
}

/** Long texts become their digest. */
export function digest(text: string): string {
  if (text.length <= 80) return text;
  return `${text.length} characters, ${createHash('sha256').update(text).digest('hex').slice(0, 16)}`;
}

/** Not one of make/dump.ts. */
const NEW_ID = /(?!0{8}-0)[\da-f]{8}(-[\da-f]{4}){3}-[\da-f]{12}/g;

const HEADERS = ['content-type', 'location', 'model-version', 'retry-after'];

export function plainResponse({
  statusCode,
  headers = {},
  body,
}: APIGatewayProxyStructuredResultV2): unknown {
  const kept = HEADERS.flatMap((name) => (headers[name] === undefined ? [] : [[name, headers[name]]]));
  return {
    status: statusCode,
    headers: Object.fromEntries(kept) as Record<string, string>,
    body: plainBody(body ?? '', statusCode ?? 0),
  };
}

function plainBody(text: string, status: number): unknown {
  if (!text.startsWith('{')) return text;
  if (status < 400) {
    const timed = text.replaceAll(/(?<="finishedAt":")[^"]+/g, (iso) => timeOf(Date.parse(iso)));
    return timed.replaceAll(NEW_ID, 'a new id');
  }
  // A failed request may be worded differently; a record's own failure is answered with 200.
  const { error: _text, ...rest } = JSON.parse(text) as Record<string, unknown>;
  return rest;
}
