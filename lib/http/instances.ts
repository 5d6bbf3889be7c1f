/** The records of a POST /predict body: JSON, a table as CSV, an image, or a form of files. */
import { hasNames, instancesOf, readJson } from '../codecs/instances.ts';
import { parseInstances } from '../codecs/numbers/parse.ts';
import { quoteName } from '../codecs/quote.ts';
import { badRequest, ServingError } from '../contract/errors.ts';
import type { Inputs } from '../contract/values.ts';
import { prefersAsync } from './accept.ts';
import { assertForm, checkInstances, PREDICT_KEYS, SUBMIT_KEYS, warningOf } from './body-keys.ts';
import { ANYONE } from './caller.ts';
import { formRecord, imageRecord, isForm, isImage } from './files.ts';
import { type HttpRequest, mediaType } from './request.ts';
import { type ReadUpload, uploadedBody, uploadIn } from './uploads.ts';

/** A request, or one of a batch, which has no caller of its own and no uploads. */
type Asked = Pick<HttpRequest, 'headers' | 'parameters' | 'path' | 'body'> &
  Partial<Pick<HttpRequest, 'caller'>>;

interface Instances {
  readonly records: readonly Inputs[];
  /** Throws an error of one of them, with its place in the body as the caller counts it. */
  readonly inPlace: (error: unknown) => never;
  /** Headers of the answer. */
  readonly headers?: Record<string, string> | undefined;
  /**
   * True if the values came without names or as files. The answer is then plain JSON instead of the contract's texts.
   */
  readonly isPlain?: boolean;
}

/**
 * True if the query asks for it. The body does not matter.
 * @throws bad_request for another form
 */
function asksPlain({ parameters: { form } }: Pick<HttpRequest, 'parameters'>): boolean {
  if (form === undefined || form === 'plain') return form === 'plain';
  throw badRequest(`form: expected plain, got ${quoteName(form)}`);
}

/** A promise for a table, a form and an upload only. @throws bad_request, too_large */
export function readInstances(request: Asked, uploads?: ReadUpload): Instances | Promise<Instances> {
  const type = mediaType(request);
  const isPlain = asksPlain(request);
  if (type === 'text/csv') return readTable(request, isPlain);
  if (isForm(type)) return readFiles(request);
  assertForm(type, request.path);
  const body = request.body();
  if (typeof body !== 'string' && isImage(type, body)) {
    return { records: [imageRecord(body)], inPlace: raise, isPlain: true };
  }
  const id = uploadIn(body);
  if (id === undefined) return readJsonBody(request, body, isPlain);
  const uploaded = uploadedBody(id, request.caller?.() ?? ANYONE, uploads);
  return uploaded.then((bytes) => readJsonBody(request, bytes, isPlain));
}

function readJsonBody(request: Asked, body: Uint8Array | string, isPlain: boolean): Instances {
  const { text, parsed } = readJson(body, undefined, parseInstances);
  // A request that should wait in the queue may have a uri, also where the service has no way to the queue.
  const known = prefersAsync(request) ? SUBMIT_KEYS : PREDICT_KEYS;
  const headers = warningOf(checkInstances(parsed, known));
  const records = instancesOf(parsed, text);
  return { records, inPlace: raise, headers, isPlain: isPlain || !hasNames(parsed) };
}

async function readTable(request: Asked, isPlain: boolean): Promise<Instances> {
  // Loaded on demand: few requests are tables.
  const { atLine, decodeCsv } = await import('../codecs/csv.ts');
  const { records, lines } = decodeCsv(request.body());
  const inPlace = (error: unknown) => raise(atLine(ServingError.from(error), lines));
  return { records, inPlace, isPlain };
}

async function readFiles(request: Asked): Promise<Instances> {
  const { inputs } = await formRecord(request);
  return { records: [inputs], inPlace: raise, isPlain: true };
}

function raise(error: unknown): never {
  throw error;
}
