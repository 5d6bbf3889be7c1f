/**
 * What the upgrade tests need of one version of the product. old-code.ts implements it for a checkout of ae017ae,
 * new-code.ts for this repository.
 */
import type { S3Client } from '@aws-sdk/client-s3';
import type { SQSClient } from '@aws-sdk/client-sqs';

export type FunctionName = 'batch' | 'dead-letter' | 'predict' | 'predictions' | 'status';

export interface Product {
  readonly InputQueue: new (options: InputOptions) => InputClient;
  readonly OutputQueue: new (options: OutputOptions) => OutputClient;
  /** Path of the module that exports a function's `handler`. */
  functionFile(name: FunctionName): string;
  /** The environment variables of a job's functions. @param config text of a config.yaml */
  functionEnvironment(config: string, servers: Servers): Record<string, string>;
  /** A Redis on a free port. @param folder holds its data */
  startRedis(folder: string): Promise<{ readonly url: string; close(): Promise<void> }>;
  /** SQS and S3 in this process. */
  startAws(): Promise<Aws>;
  /** Uploads a folder with a model and makes it the version that serves, unless `activate` is false. */
  publish(model: ModelPlace, folder: string, options?: PublishOptions): Promise<string>;
  /** @returns the version that serves now */
  rollBack(model: ModelPlace, version?: string): Promise<string>;
  listVersions(model: ModelPlace): Promise<ModelVersion[]>;
  /** Puts a taken result back under its uri, so that it can be taken again. */
  release(redisUrl: string, job: string, lease: Lease): Promise<void>;
  /** Where it archives dead letters. */
  readonly archive: 'parked/' | 'dead-letters/';
  listParked(place: ParkedPlace): Promise<ParkedLine[]>;
  showParked(place: ParkedPlace, id: string): Promise<ParkedMessage>;
  replayParked(place: ParkedPlace): Promise<Replayed>;
}

export interface Aws {
  readonly url: string;
  readonly region: string;
  readonly sqs: SQSClient;
  readonly s3: S3Client;
  readonly environment: Readonly<Record<string, string>>;
  createQueue(options: QueueOptions): Promise<{
    readonly url: string;
    readonly deadLetter: { readonly url: string } | undefined;
  }>;
  createBucket(name: string): Promise<void>;
  close(): Promise<void>;
}

export interface QueueOptions {
  readonly name: string;
  readonly visibilitySeconds: number;
  readonly maxReceiveCount: number;
}

/** Where a job's functions find what they need. */
export interface Servers {
  readonly aws: Readonly<Record<string, string>>;
  readonly bucket: string;
  readonly queueUrl: string;
  readonly redisUrl: string;
}

/** In place of the global fetch. */
export type Fetch = (url: string, init: RequestInit) => Promise<Response>;

export interface OutputOptions {
  readonly name: string;
  /** Of Redis, or of the HTTPS API. */
  readonly url: string;
  readonly fetch?: Fetch;
}

export interface InputOptions {
  readonly name: string;
  readonly queueUrl?: string;
  readonly endpoint?: string;
  readonly region?: string;
  readonly bucket?: string;
  /** The HTTPS API: without a queueUrl, records are sent through it. */
  readonly frontendUrl?: string;
  readonly fetch?: Fetch;
  /** With it, a uri is claimed before its record is sent. */
  readonly redisUrl?: string;
}

export type InputValue =
  | readonly (number | readonly number[])[]
  | readonly string[]
  | { readonly bytes: Uint8Array }
  | { readonly data: Float32Array | Int32Array | Float64Array; readonly shape: readonly number[] }
  | {
      readonly indices: readonly (readonly number[])[];
      readonly values: readonly number[];
      readonly shape: readonly number[];
    };

export interface InputClient {
  enqueue(uri: string, inputs: Readonly<Record<string, InputValue>>): Promise<unknown>;
  close(): Promise<void>;
}

export interface ResultTensor {
  readonly name: string;
  readonly dtype: string;
  readonly shape: readonly number[];
  readonly data: ArrayLike<number | bigint | string>;
}

export interface Result {
  readonly uri: string;
  readonly outputs: readonly ResultTensor[];
  readonly filtered: unknown;
  readonly model: string;
  readonly finishedAt: number;
}

export interface Failure extends Error {
  readonly code: string;
  readonly uri: string | undefined;
}

export interface OutputClient {
  query(uri: string): Promise<Result | undefined>;
  queryAndDelete(uri: string): Promise<Result | undefined>;
  wait(uri: string, options?: { readonly timeoutMs?: number }): Promise<Result>;
  status(uri: string): Promise<string>;
  cancel(uri: string): Promise<boolean>;
  dequeue(): Promise<ReadonlyMap<string, Result | Failure>>;
  close(): Promise<void>;
}

/** A job's model in S3. */
export interface ModelPlace {
  readonly s3: S3Client;
  readonly bucket: string;
  readonly job: string;
}

export interface PublishOptions {
  readonly activate?: boolean;
  /** Wall clock, in ms. */
  readonly now?: () => number;
}

export interface ModelVersion {
  readonly version: string;
  readonly bytes: number;
  readonly files: number;
  readonly uploadedAt: string;
  readonly format: string | undefined;
  readonly serves: boolean;
  /** Whether a rollback goes back to it. */
  readonly before: boolean;
}

/** A result that was taken, and is kept for a while in case its taker did not receive it. */
export interface Lease {
  readonly uri: string;
  /** Random; part of the key under which the result is kept. */
  readonly leaseId: string;
  /** Time to live that the result had left. */
  readonly leftMs: number;
}

/** Where a job's dead letters are parked. */
export interface ParkedPlace {
  readonly bucket: string;
  /** Path of the job's config.yaml. */
  readonly configFile: string;
  readonly redisUrl: string;
}

export interface ParkedLine {
  readonly id: string;
  readonly uri: string | undefined;
  readonly sentAt: string | undefined;
  readonly deliveries: number | undefined;
  readonly readable: boolean;
  readonly result: unknown;
}

export interface ParkedMessage extends Omit<ParkedLine, 'readable'> {
  readonly message: string;
  readonly payload: unknown;
  readonly inputs: unknown;
  /** Why the record cannot be read. */
  readonly code: string | undefined;
}

export interface Replayed {
  readonly succeeded: number;
  /** Had a result already, or were cancelled. */
  readonly over: number;
  readonly stillFailing: readonly {
    readonly id: string;
    readonly uri: string | undefined;
    readonly code: string;
  }[];
}

/** Where a command writes its answer. */
interface CliOutput {
  readonly json: boolean;
  answer(document: unknown, text: string): void;
  piece(text: string): void;
  note(text: string): void;
  failure(error: Failure): void;
}

/** Runs a command as with `--json` and returns what it prints. @throws its error */
export async function cliJson<T>(
  run: (args: readonly string[], output: CliOutput) => Promise<number>,
  args: readonly string[],
): Promise<T> {
  let text = '';
  let failed: Failure | undefined;
  await run(args, {
    json: true,
    answer: (document) => {
      text += JSON.stringify(document);
    },
    piece: (piece) => {
      text += piece;
    },
    note: () => undefined,
    failure: (error) => {
      failed = error;
    },
  });
  if (failed) throw failed;
  return JSON.parse(text) as T;
}
