/**
 * Files and batches, in the form of OpenAI's API. A function takes a file of up to 4 MiB, because a request to it has no more; a single
 * machine has routes of its own for the bytes of files, which are streamed.
 */
import { isObject, readJson } from '../../codecs/instances.ts';
import { quoteValue } from '../../codecs/quote.ts';
import { decodeUtf8 } from '../../codecs/utf8.ts';
import { badRequest, ServingError } from '../../contract/errors.ts';
import { isForm } from '../files.ts';
import { type HttpRequest, mediaType } from '../request.ts';
import { binary, type HttpResponse, json } from '../response.ts';
import { readParts } from '../worker/form.ts';

interface Page {
  readonly limit: number;
  readonly after: string | undefined;
}

interface KeptFile {
  readonly filename: string;
  readonly key: string;
  readonly bytes: number;
}

/** Keeps files and batches. Its answers are in the form of OpenAI's API. */
export interface BatchService {
  readonly files: {
    upload(filename: string, bytes: Uint8Array): Promise<object>;
    list(page: Page, purpose: string | undefined): Promise<object>;
    file(id: string): Promise<object>;
    kept(id: string): Promise<KeptFile>;
    read(file: KeptFile): Promise<Uint8Array>;
    remove(id: string): Promise<object>;
  };
  readonly batches: {
    create(asked: {
      readonly inputFileId: string;
      readonly endpoint: unknown;
      readonly metadata: unknown;
    }): Promise<object>;
    list(page: Page): Promise<object>;
    batch(id: string): Promise<object>;
    cancel(id: string): Promise<object>;
  };
}

export interface OpenAIDeps {
  /** Loaded at the first request. */
  readonly batchService: () => Promise<BatchService>;
  /** A URL of an object that is too large for an answer. */
  readonly locate: (key: string) => string;
}

const MiB = 1024 * 1024;
/** As base64, that is nearly what a function takes and answers. */
const FILE_BYTES = 4 * MiB;
const MOST_LISTED = 100;
const DEFAULT_LISTED = { files: 100, batches: 20 } as const;
const NAME_CHARACTERS = 255;

const PATH = /\/v1\/(files|batches)(?:\/([^/]+)(?:\/(content|cancel))?)?$/;

export async function answerOpenAI(request: HttpRequest, deps: OpenAIDeps): Promise<HttpResponse> {
  const [, kind, id, action] = PATH.exec(request.path) ?? [];
  const method = request.method === 'HEAD' ? 'GET' : request.method;
  const service = await deps.batchService();
  const answer = kind === 'files' ? answerFiles : answerBatches;
  const answered = await answer({ request, method, id, action }, service, deps);
  if (answered) return answered;
  throw new ServingError('not_found', `no such path: ${request.method} ${request.path}`);
}

interface Asked {
  readonly request: HttpRequest;
  readonly method: string;
  readonly id: string | undefined;
  readonly action: string | undefined;
}

async function answerFiles(
  { request, method, id, action }: Asked,
  { files }: BatchService,
  { locate }: OpenAIDeps,
): Promise<HttpResponse | undefined> {
  if (id === undefined) {
    if (method === 'POST') return json(200, await upload(request, files));
    return json(200, await files.list(pageOf(request, 'files'), request.parameters['purpose']));
  }
  if (method === 'DELETE') return json(200, await files.remove(id));
  if (action !== 'content') return json(200, await files.file(id));
  const file = await files.kept(id);
  if (file.bytes > FILE_BYTES)
    return { statusCode: 303, headers: { location: locate(file.key), 'cache-control': 'no-store' } };
  const bytes = await files.read(file);
  return binary(200, Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength).toString('base64'));
}

async function answerBatches(
  { request, method, id, action }: Asked,
  { batches }: BatchService,
): Promise<HttpResponse | undefined> {
  if (id === undefined) {
    if (method === 'POST') return json(200, await batches.create(askedBatch(request)));
    return json(200, await batches.list(pageOf(request, 'batches')));
  }
  if (method === 'GET' && action === undefined) return json(200, await batches.batch(id));
  return method === 'POST' && action === 'cancel' ? json(200, await batches.cancel(id)) : undefined;
}

async function upload(request: HttpRequest, files: BatchService['files']): Promise<object> {
  if (!isForm(mediaType(request)))
    throw badRequest('expected a multipart form with the fields "file" and "purpose"');
  const fields = new Map<string, string>();
  let file: { readonly filename: string; readonly content: Uint8Array } | undefined;
  for (const [name, { content, filename }] of readParts(request)) {
    if (name === 'file') file = { filename: filenameOf(filename), content };
    else fields.set(name, decodeUtf8(content) ?? '');
  }
  assertFields(fields);
  if (!file) throw badRequest("'file' is a required field");
  if (file.content.byteLength > FILE_BYTES) throw fileTooLarge(FILE_BYTES);
  return files.upload(file.filename, file.content);
}

/** Checks the fields beside the file. @throws bad_request */
export function assertFields(fields: ReadonlyMap<string, string>): void {
  const purpose = fields.get('purpose');
  if (purpose === undefined) throw badRequest("'purpose' is a required field");
  if (purpose !== 'batch') throw badRequest(`purpose: expected "batch", got ${quoteValue(purpose)}`);
  const other = [...fields.keys()].find((name) => name !== 'purpose');
  if (other !== undefined) throw badRequest(`${other}: not served; files stay until they are deleted`);
}

export function filenameOf(filename: string | undefined): string {
  return filename?.slice(0, NAME_CHARACTERS) || 'file.jsonl';
}

export function fileTooLarge(limit: number): ServingError {
  return new ServingError(
    'too_large',
    `the file has more than ${limit / MiB} MiB; \`cluster-serving job run\` answers files of any size`,
  );
}

function pageOf({ parameters }: HttpRequest, kind: keyof typeof DEFAULT_LISTED): Page {
  const { limit: text, after, order } = parameters;
  const limit = text === undefined ? DEFAULT_LISTED[kind] : Number(text);
  if (!Number.isSafeInteger(limit) || limit < 1)
    throw badRequest(`limit: expected a whole number from 1, got ${quoteValue(text)}`);
  if (order !== undefined && order !== 'desc')
    throw badRequest(`order: expected desc, the newest first, got ${quoteValue(order)}`);
  return { limit: Math.min(limit, MOST_LISTED), after };
}

function askedBatch(request: HttpRequest) {
  const { parsed } = readJson(request.body());
  if (!isObject(parsed))
    throw badRequest('expected {"input_file_id", "endpoint", "completion_window": "24h"}');
  const { input_file_id: inputFileId, endpoint, completion_window: window, metadata, ...others } = parsed;
  if (typeof inputFileId !== 'string')
    throw badRequest(`input_file_id: expected the id of a file, got ${quoteValue(inputFileId)}`);
  if (window !== '24h') throw badRequest(`completion_window: expected "24h", got ${quoteValue(window)}`);
  const other = Object.keys(others).find((name) => others[name] !== null);
  if (other !== undefined) throw badRequest(`${other}: not served`);
  return { inputFileId, endpoint, metadata };
}
