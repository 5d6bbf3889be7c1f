/** Chooses what answers a request: the model that it names, and of its versions the one that is asked for, or a canary. */
import { CANARY_KEY } from '../codecs/attributes.ts';
import { readCanaryKey } from '../contract/enqueue.ts';
import { DEFAULT_JOB_NAME } from '../contract/names.ts';
import type { Model } from '../contract/values.ts';

interface Asked {
  readonly headers: { readonly [CANARY_KEY]?: unknown };
  /** The version that it names. Default: any. */
  readonly version: string | undefined;
  readonly requestId: () => string;
}

/**
 * @returns the same model, or that of the canary: by the header `canary-key`, else for a share of the requests
 * @throws bad_request for a bad key, also while there is no canary
 */
export function modelFor(model: Model, { headers, version, requestId }: Asked): Model {
  const key = readCanaryKey(headers[CANARY_KEY]);
  const { canary } = model;
  if (!canary) return model;
  const isTaken = version === undefined ? canary.takes(key ?? requestId()) : version === canary.model.version;
  return isTaken ? canary.model : model;
}

/** The name of a further model in a request. */
export interface Named {
  readonly name: string;
  /** True: the route itself says that it is unknown, in the form of its protocol. */
  readonly isInPath: boolean;
}

const IN_PATH = /^\/v[12]\/models\/([^/:]+)/;
/** A path without a name. */
const ALL_STATISTICS = '/v2/models/stats';

/** @returns undefined for the job's own model, which a request names or not */
export function modelNamed(
  path: string,
  query: Readonly<Record<string, string | undefined>> | undefined,
  job: string = DEFAULT_JOB_NAME,
): Named | undefined {
  const inPath = path === ALL_STATISTICS ? undefined : IN_PATH.exec(path)?.[1];
  const name = inPath ?? query?.['model'];
  return name === undefined || name === job ? undefined : { name, isInPath: inPath !== undefined };
}
