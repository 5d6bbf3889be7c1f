/** The records of a POST /predict body: JSON, or a table as CSV. */
import { decodeInstances } from '../codecs/instances.ts';
import { parseInstances } from '../codecs/numbers/parse.ts';
import { ServingError } from '../contract/errors.ts';
import type { Inputs } from '../contract/values.ts';
import { type HttpRequest, mediaType } from './request.ts';

interface Instances {
  readonly instances: readonly Inputs[];
  /** Throws an error of one of them, with its place in the body as the caller counts it. */
  readonly inPlace: (error: unknown) => never;
}

/** A promise for a table only. @throws bad_request, too_large */
export function readInstances(request: HttpRequest): Instances | Promise<Instances> {
  if (mediaType(request) === 'text/csv') return readTable(request);
  return { instances: decodeInstances(request.body(), parseInstances), inPlace: raise };
}

async function readTable(request: HttpRequest): Promise<Instances> {
  // Loaded on demand: few requests are tables.
  const { atLine, decodeCsv } = await import('../codecs/csv.ts');
  const { records, lines } = decodeCsv(request.body());
  return { instances: records, inPlace: (error) => raise(atLine(ServingError.from(error), lines)) };
}

function raise(error: unknown): never {
  throw error;
}
