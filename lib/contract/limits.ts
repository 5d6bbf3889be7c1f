/**
 * Every limit of the endpoints, in one place. A limit protects only when it is checked before the bytes are expanded.
 * docs/reference/limits.md is written from it: the first sentence of a comment says what the limit is for, and the others
 * what happens above it where that is not `too_large`.
 */
import {
  IMAGE_BYTES,
  LARGE_ANSWER_BYTES,
  over,
  TENSOR_ELEMENTS,
  TENSOR_RANK,
  UPLOAD_BYTES,
  URI_BYTES,
} from './client-limits.ts';
import type { ServingError } from './errors.ts';

const MiB = 1024 * 1024;

export const LIMITS = {
  /** A message in SQS. A larger record travels through S3 where its sender knows the bucket. */
  messageBytes: MiB,
  /** A record that travels through S3, and a body that is [uploaded](http.md#larger-bodies). */
  payloadBytes: UPLOAD_BYTES,
  // As JSON it has at most about twice that, so that every answer and every page of them stays far below 6 MiB; and a
  // thousand results at the limit fill a small Redis, which larger ones no longer do.
  /** One result in Redis, as text. A larger one goes to S3, where the function knows the bucket. */
  resultBytes: MiB,
  // An item has 400 KB, with the names of its attributes and the lists of a uri's enqueues.
  /** One result in a table of DynamoDB, as text. A larger one goes to S3. */
  tableResultBytes: 350 * 1024,
  // 16,777,216 numbers of float32, whose JSON always fits into the limit below, and that into one text of V8.
  /** One result in S3, as bytes. The record fails with `too_large`. */
  largeResultBytes: 64 * MiB,
  /** The JSON of one result in S3, for readers over HTTPS. The record fails with `too_large`. */
  largeAnswerBytes: LARGE_ANSWER_BYTES,
  /** Entries of one SendMessageBatch call. More are sent in several calls. */
  sendEntries: 10,
  /** The body of a request that is not uploaded, unzipped too, and of an answer. `too_large`; a result that cannot be answered stays. */
  httpBodyBytes: 6 * MiB,
  /** The body and the answer of `POST /encode` and of uploaded images on a single machine, and a message over gRPC. Deployed, `httpBodyBytes` holds. */
  frameBytes: 32 * MiB,
  /** An image of `POST /v1/encode_img_bytes`, or one that `POST /encode_img_url` fetches. */
  smallImageBytes: 5 * MiB,
  /** Instances of one `POST /predict`. */
  instances: 1_000,
  // A hundred calls to SQS and 0.3 s of a processor: about a second of a function with 512 MB, which has 29.
  /** Records of one `POST /predictions` with a record on each line. */
  recordsPerBody: 1_000,
  /** Inputs of one record, tensors of one `/v2` request. */
  inputsPerRecord: 256,
  // Half a million objects with another key each take V8 a second.
  /** Objects in 6 MiB of JSON. */
  jsonObjects: 131_072,
  // 1,000 records of 256 inputs are below.
  /** Members of all objects in 6 MiB of JSON. */
  jsonMembers: 262_144,
  /** Texts and keys in 6 MiB of JSON, texts of a binary tensor. */
  texts: 524_288,
  // A picture of 512 x 512 pixels of three numbers each is 262,657 arrays.
  /** Arrays in 6 MiB of JSON, but for those of numbers that are read as a tensor. */
  jsonArrays: 524_288,
  /** Integers of 16 digits and more, NaN and infinities in a body of JSON. */
  jsonSpecials: 262_144,
  /** Columns of a table as CSV. */
  csvColumns: 4_096,
  // Each becomes a value of its record, of some 100 bytes and a microsecond. 1,000 rows of 256 cells are below.
  /** Cells of all rows of one table as CSV in a request. */
  csvCells: 262_144,
  /** Characters of an input's name. */
  inputNameLength: 256,
  /** A uri. Answered with `bad_request`, and the `id` of a `/v2` request with `too_large`. */
  uriBytes: URI_BYTES,
  /** Elements of one dense tensor, also after a sparse one is expanded: 256 MiB as float32. */
  tensorElements: TENSOR_ELEMENTS,
  /** Dimensions of one tensor, and levels of nested arrays. */
  tensorRank: TENSOR_RANK,
  /** Non-zero values of one sparse tensor. */
  sparseValues: 4 * MiB,
  /** Decoded pixels of one image. */
  imagePixels: 16_777_216,
  /** One encoded image. */
  imageBytes: IMAGE_BYTES,
  // 852 kB of flat PNGs are five gigapixels, which held a process for 29 s; photos that fit into 6 MiB stay below.
  /** Decoded pixels of all images of one HTTP request, or of one queued record. */
  pixelsPerRequest: 4 * 16_777_216,
  // A thousand images of 3x224x224 are 151 million.
  /** Elements that all images and sparse tensors of one HTTP request, or of one queued record, become. */
  elementsPerRequest: 256 * MiB,
  /** Characters of one text for a model with a tokenizer. Longer ones are refused, not cut off. */
  textCharacters: 131_072,
  /** The tokenizer.json of a model. Refused with `bad_model`. */
  tokenizerBytes: 64 * MiB,
  /** Columns and nested fields of one Arrow record or result. */
  arrowFields: 4_096,
  /** Record batches of one Arrow record or result. */
  arrowBatches: 1_024,
} as const;

/**
 * The `too_large` error of a limit, with its value and name.
 * @param what what is too large, up to its verb: `17 dimensions are`
 * @param unit of the limit's value
 */
export function overLimit(limit: keyof typeof LIMITS, what: string, unit?: string): ServingError {
  const value = unit === undefined ? LIMITS[limit] : `${LIMITS[limit]} ${unit}`;
  return over(limit, value, what);
}
