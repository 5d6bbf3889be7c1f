/** The gRPC status of an error. */
import { Metadata, type ServiceError, status } from '@grpc/grpc-js';
import { type ErrorCode, ServingError } from '../../lib/contract/errors.ts';
import { logError } from '../../lib/contract/log.ts';

const STATUSES: Readonly<Record<ErrorCode, status>> = {
  bad_request: status.INVALID_ARGUMENT,
  bad_input: status.INVALID_ARGUMENT,
  unauthorized: status.UNAUTHENTICATED,
  forbidden: status.PERMISSION_DENIED,
  not_found: status.NOT_FOUND,
  conflict: status.ABORTED,
  too_large: status.RESOURCE_EXHAUSTED,
  unsupported_media_type: status.INVALID_ARGUMENT,
  bad_model: status.FAILED_PRECONDITION,
  model_failed: status.INVALID_ARGUMENT,
  rate_limited: status.RESOURCE_EXHAUSTED,
  cancelled: status.CANCELLED,
  model_unavailable: status.UNAVAILABLE,
  results_unavailable: status.UNAVAILABLE,
  queue_unavailable: status.UNAVAILABLE,
  timeout: status.DEADLINE_EXCEEDED,
  record_expired: status.DEADLINE_EXCEEDED,
  max_receives_exceeded: status.INTERNAL,
  bad_config: status.INTERNAL,
  internal: status.INTERNAL,
};

/** A client takes 8 KiB of metadata, and a character may take nine bytes of it. */
const MOST_CHARACTERS = 800;

/** Logs an error of the service. The code is metadata too, because several codes share a status. */
export function statusOf(error: unknown): Pick<ServiceError, 'code' | 'details' | 'metadata'> {
  const known = ServingError.from(error);
  if (known.status >= 500) logError(known);
  const metadata = new Metadata();
  metadata.set('error-code', known.code);
  const { retryAfterSeconds } = known;
  if (retryAfterSeconds !== undefined) metadata.set('retry-after', String(retryAfterSeconds));
  // Half of a character would throw where the details are encoded.
  const details = known.publicMessage.slice(0, MOST_CHARACTERS).toWellFormed();
  return { code: STATUSES[known.code], details, metadata };
}
