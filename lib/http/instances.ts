/** The records of a POST /predict body: JSON, a table as CSV, or an image. */
import { FORMATS } from '../codecs/image/formats.ts';
import { instancesOf, readJson } from '../codecs/instances.ts';
import { parseInstances } from '../codecs/numbers/parse.ts';
import { ServingError } from '../contract/errors.ts';
import type { Inputs } from '../contract/values.ts';
import { prefersAsync } from './accept.ts';
import { assertForm, checkKeys, PREDICT_KEYS, SUBMIT_KEYS, warningOf } from './body-keys.ts';
import { type HttpRequest, mediaType } from './request.ts';

interface Instances {
  readonly instances: readonly Inputs[];
  /** Throws an error of one of them, with its place in the body as the caller counts it. */
  readonly inPlace: (error: unknown) => never;
  /** Headers of the answer. */
  readonly headers?: Record<string, string> | undefined;
}

/** A promise for a table only. @throws bad_request, too_large */
export function readInstances(request: HttpRequest): Instances | Promise<Instances> {
  const type = mediaType(request);
  if (type === 'text/csv') return readTable(request);
  assertForm(type, '/predict');
  const body = request.body();
  if (typeof body !== 'string' && isImage(type, body)) {
    return { instances: [imageRecord(body)], inPlace: raise };
  }
  const { text, parsed } = readJson(body, undefined, parseInstances);
  // A request that should wait in the queue may have a uri, also where the service has no way to the queue.
  const headers = warningOf(checkKeys(parsed, prefersAsync(request) ? SUBMIT_KEYS : PREDICT_KEYS));
  return { instances: instancesOf(parsed, text), inPlace: raise, headers };
}

async function readTable(request: HttpRequest): Promise<Instances> {
  // Loaded on demand: few requests are tables.
  const { atLine, decodeCsv } = await import('../codecs/csv.ts');
  const { records, lines } = decodeCsv(request.body());
  return { instances: records, inPlace: (error) => raise(atLine(ServingError.from(error), lines)) };
}

/** That of nearly every JSON. */
const BRACE = 0x7b;

/** The first bytes of an image begin no JSON, so that curl needs no content type. */
function isImage(type: string, body: Uint8Array): boolean {
  return type.startsWith('image/') || (body[0] !== BRACE && FORMATS.some((format) => format.is(body)));
}

/** Near to the name of no input: it binds because it is the only one. */
const BODY = '(body)';

function imageRecord(bytes: Uint8Array): Inputs {
  return new Map([[BODY, { kind: 'image', bytes }]]);
}

function raise(error: unknown): never {
  throw error;
}
