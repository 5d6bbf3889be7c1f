/** The objects and the messages of jobs over files. */

import { present } from '../contract/present.ts';
import type { Model, Outcome } from '../contract/values.ts';
import type { Observers } from '../pipeline/observer.ts';
import type { TableFormat } from './cut.ts';
import type { EndpointName } from './openai/batch.ts';
import type { Endpoint } from './openai/call.ts';
import { type Address, type Format, type JobKeys, type JobRequest, readRequest } from './request.ts';

/** An object as it was when the job began. */
export interface JobFile extends Address {
  readonly etag: string;
  readonly bytes: number;
}

export interface ListedFile {
  readonly key: string;
  readonly etag: string;
  readonly bytes: number;
}

/** The objects of the job's bucket, and files anywhere. */
export interface JobStore {
  /** Undefined when there is no such object. */
  text(key: string): Promise<{ readonly text: string; readonly etag: string | undefined } | undefined>;
  put(key: string, text: string): Promise<void>;
  /** @returns false when there is another text already */
  putNew(key: string, text: string): Promise<boolean>;
  /** In the order of keys. @param after only keys after this one. @throws bad_request where S3 refuses it */
  pages(address: Address, after?: string): AsyncIterable<readonly ListedFile[]>;
  remove(keys: readonly string[]): Promise<void>;
  /** @param file without an ETag it cannot change. @throws conflict when it is not what it was */
  read(file: JobFile, start: number, end: number): Promise<Uint8Array>;
  /** The size of an object; undefined when there is none. */
  size(address: Address): Promise<number | undefined>;
  /** @throws bad_request where S3 refuses it */
  putObject(address: Address, body: Uint8Array): Promise<void>;
  /** An upload in parts. @returns its id. @throws bad_request where S3 refuses it */
  begin(address: Address): Promise<string>;
  /** @returns its ETag; undefined when there is no such upload any more */
  putPart(address: Address, upload: string, number: number, body: Uint8Array): Promise<string | undefined>;
  /** @param etags of all parts in order. @returns false when there is no such upload any more */
  complete(address: Address, upload: string, etags: readonly string[]): Promise<boolean>;
}

/** An object that a job wrote itself. */
export async function readJson<T>(store: Pick<JobStore, 'text'>, key: string): Promise<T | undefined> {
  const found = await store.text(key);
  if (!found) return undefined;
  const value: T = JSON.parse(found.text);
  return value;
}

/** Who asked for a job, and for what. */
export async function requestOf(store: Pick<JobStore, 'text'>, { manifest }: JobKeys): Promise<JobRequest> {
  return readRequest(present(await store.text(manifest), manifest).text);
}

export interface JobDeps {
  /** The name of the job whose model answers. */
  readonly job: string;
  readonly bucket: string;
  readonly model: Model;
  readonly store: JobStore;
  readonly observers: Observers;
  send(message: Message, delaySeconds?: number): Promise<void>;
  /** The JSON of a record's answer, as POST /predict gives it. @throws too_large, model_failed */
  answerText(outcome: Extract<Outcome, { ok: true }>, version: string): string;
  /** Reads and answers requests of a batch. */
  endpoint(name: EndpointName): Endpoint;
  /** Deliveries after which a row that has no outcome is an error. */
  readonly most: number;
  /** The function's, for the price. */
  readonly memoryMB: number;
  readonly arch: string;
  /** Wall clock in ms. */
  readonly now: () => number;
}

interface OfUnit {
  /** The id of the job over files. */
  readonly id: string;
  readonly unit: number;
}

/** Rows of a file to be cut, from a byte on. */
export interface PlanMessage extends OfUnit {
  readonly do: 'plan';
  readonly file: JobFile;
  readonly name: string;
  readonly format: Exclude<Format, 'picture'>;
  readonly at: number;
  readonly row: number;
  readonly columns?: readonly string[] | undefined;
  /** A batch has one. */
  readonly endpoint?: EndpointName | undefined;
  readonly dryRun?: boolean | undefined;
}

/** Rows to be answered. */
export interface RunMessage extends OfUnit {
  readonly do: 'run';
  /** The first row in the unit, from 0. */
  readonly row: number;
  readonly rows: number;
  readonly source:
    | {
        readonly kind: 'table';
        readonly format: TableFormat;
        readonly file: JobFile;
        readonly name: string;
        readonly start: number;
        readonly end: number;
        readonly columns?: readonly string[] | undefined;
        readonly endpoint?: EndpointName | undefined;
      }
    | {
        /** Its rows are those of the file. */
        readonly kind: 'parquet';
        readonly file: JobFile;
        readonly name: string;
      }
    | {
        readonly kind: 'picture';
        readonly bucket: string;
        readonly files: readonly (readonly [key: string, etag: string, bytes: number, name: string])[];
      };
}

export interface WatchMessage {
  readonly do: 'watch';
  readonly id: string;
  /** Counts up, so that a second chain of them ends. */
  readonly turn: number;
}

export interface MergeMessage {
  readonly do: 'merge';
  readonly id: string;
  /** The ETags of the parts of the upload that are there. */
  readonly etags: readonly string[];
  /** Files that are whole: a batch has two. */
  readonly files?: number;
}

export type Message = PlanMessage | RunMessage | WatchMessage | MergeMessage;
