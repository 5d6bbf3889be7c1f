/**
 * Batches in the form of OpenAI's API: a job over one file whose lines are requests. The id of a batch is that of its job, and begins with
 * `batch_`, so that each message of the job says by its id that it is one.
 */
import { isObject } from '../../codecs/instances.ts';
import { quoteValue } from '../../codecs/quote.ts';
import { badRequest } from '../../contract/errors.ts';
import { fileJobsPrefix } from '../../contract/names.ts';
import { isCount } from '../../contract/present.ts';

export const ENDPOINTS = ['/v1/embeddings', '/predict', '/predict?form=plain'] as const;
export type EndpointName = (typeof ENDPOINTS)[number];

export interface BatchRequest {
  readonly endpoint: EndpointName;
  readonly inputFileId: string;
  /** The caller gives it; up to 16 texts. */
  readonly metadata: Readonly<Record<string, string>> | null;
  /** Seconds since 1970. */
  readonly createdAt: number;
}

/** The only completion window that OpenAI's API has. */
export const WINDOW_SECONDS = 86_400;

const MOST_METADATA = 16;
const KEY_CHARACTERS = 64;
const VALUE_CHARACTERS = 512;

export function isBatchId(id: string): boolean {
  return id.startsWith('batch_');
}

/** The end of an id, which its output files have too. */
export function stemOf(id: string): string {
  return id.slice(id.indexOf('_') + 1);
}

/** @throws bad_request */
export function readEndpoint(endpoint: unknown): EndpointName {
  const known = ENDPOINTS.find((one) => one === endpoint);
  if (known !== undefined) return known;
  throw badRequest(`endpoint: expected ${ENDPOINTS.join(', ')}, got ${quoteValue(endpoint)}`);
}

/** @param value of a job's request. @throws bad_request */
export function readBatch(value: unknown): BatchRequest | undefined {
  if (value === undefined) return undefined;
  if (!isObject(value)) throw badRequest(`batch: expected an object, got ${quoteValue(value)}`);
  const { endpoint, inputFileId, metadata, createdAt } = value;
  if (typeof inputFileId !== 'string' || !isCount(createdAt))
    throw badRequest('batch: expected {"endpoint", "inputFileId", "metadata", "createdAt"}');
  return { endpoint: readEndpoint(endpoint), inputFileId, metadata: readMetadata(metadata), createdAt };
}

/** @throws bad_request */
export function readMetadata(value: unknown): Readonly<Record<string, string>> | null {
  if (value === undefined || value === null) return null;
  const pairs = isObject(value) ? Object.entries(value) : undefined;
  if (!pairs || pairs.length > MOST_METADATA)
    throw badRequest(`metadata: expected an object of at most ${MOST_METADATA} texts`);
  return Object.fromEntries(
    pairs.map(([key, text]) => {
      if (typeof text === 'string' && key.length <= KEY_CHARACTERS && text.length <= VALUE_CHARACTERS)
        return [key, text];
      throw badRequest(
        `metadata: expected keys of at most ${KEY_CHARACTERS} characters and texts of at most ${VALUE_CHARACTERS}`,
      );
    }),
  );
}

/** The files of this API: what a file is, and its bytes where they were uploaded. */
export function fileKeys(job: string) {
  const base = fileJobsPrefix(job);
  return {
    facts: `${base}files/`,
    uploads: `${base}uploads/`,
    requests: `${base}in/`,
    outputs: `${base}out/`,
  };
}

/** The object that says what a file is. */
export function factsKey(job: string, id: string): string {
  return `${fileKeys(job).facts}${id}.json`;
}

/** A file of this API, as it is kept. */
export interface KeptFile {
  readonly id: string;
  readonly filename: string;
  readonly purpose: 'batch' | 'batch_output';
  readonly bytes: number;
  /** Seconds since 1970. */
  readonly createdAt: number;
  /** The object that has its bytes. */
  readonly key: string;
}
