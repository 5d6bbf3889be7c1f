/**
 * A client of `inference.GRPCInferenceService` for tests: grpc-js with messages that are written by field numbers, and the
 * service before jobs of this process.
 */
import { Client, type ClientOptions, credentials, Metadata, type ServiceError } from '@grpc/grpc-js';
import type { Runner } from '../../../lib/contract/values.ts';
import { Inferences } from '../../../lib/observe/inferences.ts';
import type { GrpcJob, Jobs } from '../../../local/grpc/methods.ts';
import { type GrpcOptions, startGrpc } from '../../../local/grpc/server.ts';
import { bytes, ints } from '../../onnx-import/support/protobuf.ts';
import { quietObservers } from '../../support/observers.ts';
import type { Hooks } from '../../support/runner.ts';

export function jobOf(jobName: string, runner: Runner, more: Partial<GrpcJob> = {}): GrpcJob {
  const statistics = new Inferences(Date.now);
  const observers = quietObservers(statistics);
  return {
    deps: { model: { use: (work) => work(runner) }, observers, statistics, jobName, batchSize: 32 },
    timeoutMs: 30_000,
    refuses: () => false,
    ...more,
  };
}

export const OPEN = { host: '127.0.0.1', allowedHosts: [], token: undefined };

/** The service on a free port, closed after the test. */
export async function serviceOf(t: Hooks, jobs: readonly GrpcJob[], options: Partial<GrpcOptions> = {}) {
  const server = await startGrpc({ port: 0, access: OPEN, jobs: jobs as unknown as Jobs, ...options });
  t.after(() => server.close());
  return server;
}

export interface CallOptions {
  readonly metadata?: Readonly<Record<string, string>>;
  readonly deadlineMs?: number;
  readonly signal?: AbortSignal;
}

export type Call = (method: string, message?: Uint8Array, options?: CallOptions) => Promise<Buffer>;

/** A connection, closed after the test. A call rejects with a ServiceError. */
export function connect(t: Hooks, port: number, options: ClientOptions = {}): Call {
  const client = new Client(`127.0.0.1:${port}`, credentials.createInsecure(), {
    'grpc.max_receive_message_length': -1,
    ...options,
  });
  t.after(async () => client.close());
  const same = (message: Buffer) => message;
  return (method, message = Buffer.alloc(0), { metadata = {}, deadlineMs, signal } = {}) =>
    new Promise((resolve, reject) => {
      const sent = new Metadata();
      for (const [name, value] of Object.entries(metadata)) sent.set(name, value);
      const path = `/inference.GRPCInferenceService/${method}`;
      const until = deadlineMs === undefined ? {} : { deadline: Date.now() + deadlineMs };
      const done = (error: ServiceError | null, answer?: Buffer) => {
        if (error) reject(error);
        else resolve(answer as Buffer);
      };
      const call = client.makeUnaryRequest(path, same, same, Buffer.from(message), sent, until, done);
      signal?.addEventListener('abort', () => call.cancel());
    });
}

export interface Sent {
  readonly name?: string;
  readonly datatype: string;
  readonly shape: readonly (number | bigint)[];
  /** The fields of `contents`. */
  readonly typed?: Buffer;
  readonly raw?: Uint8Array;
}

/** A ModelInferRequest. @param rest further fields */
export function inferMessage(model: string, inputs: readonly Sent[], ...rest: readonly Buffer[]): Buffer {
  const tensors = inputs.map(({ name = 'x', datatype, shape, typed }) =>
    bytes(5, bytes(1, name), bytes(2, datatype), ints(3, shape), typed ? bytes(5, typed) : ''),
  );
  const raw = inputs.flatMap(({ raw: one }) => (one ? [bytes(7, one)] : []));
  return Buffer.concat([bytes(1, model), ...tensors, ...raw, ...rest]);
}
