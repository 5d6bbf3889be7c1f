/**
 * The limits that a client checks too, apart from the others, so that a bundle for browsers has no more than these. What they
 * are for is said in limits.ts.
 */
import { ServingError } from './errors.ts';

const MiB = 1024 * 1024;

export const LARGE_ANSWER_BYTES = 256 * MiB;
export const URI_BYTES = 1_024;
export const TENSOR_ELEMENTS = 64 * MiB;
export const TENSOR_RANK = 16;
export const IMAGE_BYTES = 32 * MiB;
export const UPLOAD_BYTES = 32 * MiB;
/** A larger body is uploaded first. Lambda takes 6 MiB with what the gateway writes around it. */
export const DIRECT_BODY_BYTES = 6 * MiB - 65_536;

/** @param value of the limit, with its unit if it needs one */
export function over(limit: string, value: number | string, what: string): ServingError {
  return new ServingError('too_large', `${what} over the limit of ${value} (${limit})`);
}
