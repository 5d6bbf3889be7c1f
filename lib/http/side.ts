/** Chooses the version that answers a request, while a canary takes a share. */
import { CANARY_KEY } from '../codecs/attributes.ts';
import { readCanaryKey } from '../contract/enqueue.ts';
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
