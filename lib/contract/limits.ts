/**
 * Every limit of the endpoints, in one place; the README lists those that users meet. A limit protects only when it is
 * checked before the bytes are expanded.
 */
import { ServingError } from './errors.ts';

const MiB = 1024 * 1024;

export const LIMITS = {
  /** SQS refuses a larger message. */
  messageBytes: MiB,
  /** A record that is too large for a message travels through S3, up to this. */
  payloadBytes: 32 * MiB,
  /** What one result may take in Redis, as base64. */
  resultBytes: 32 * MiB,
  /** Entries of one SendMessageBatch call. */
  sendEntries: 10,
  /** API Gateway to Lambda payload. */
  httpBodyBytes: 6 * MiB,
  /** Instances of one POST /predict. */
  instances: 1_000,
  inputsPerRecord: 256,
  inputNameLength: 256,
  uriBytes: 1_024,
  /** Elements of one dense tensor, also after a sparse one is expanded: 64 Mi elements, 256 MiB as float32. */
  tensorElements: 64 * MiB,
  tensorRank: 16,
  /** Non-zero values of one sparse tensor. */
  sparseValues: 4 * MiB,
  /** Decoded pixels of one image. */
  imagePixels: 16_777_216,
  imageBytes: 32 * MiB,
  /**
   * Decoded pixels of all images of one HTTP request, or of one queued record: four of the largest. 852 kB of flat PNGs
   * are five gigapixels, which held a process for 29 s; photos that fit into 6 MiB of base64 stay below.
   */
  pixelsPerRequest: 4 * 16_777_216,
  /** Elements that the images and sparse tensors of the same become: a thousand images of 3x224x224 are 151 million. */
  elementsPerRequest: 256 * MiB,
  /** Arrow columns, nested fields and record batches of one record or result. */
  arrowFields: 4_096,
  arrowBatches: 1_024,
} as const;

/**
 * The `too_large` error of a limit, with its value and name.
 * @param what what is too large, up to its verb: `17 dimensions are`
 * @param unit of the limit's value
 */
export function overLimit(limit: keyof typeof LIMITS, what: string, unit?: string): ServingError {
  const value = unit === undefined ? LIMITS[limit] : `${LIMITS[limit]} ${unit}`;
  return new ServingError('too_large', `${what} over the limit of ${value} (${limit})`);
}
