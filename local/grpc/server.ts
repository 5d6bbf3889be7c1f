/**
 * The Open Inference Protocol over gRPC: one port for all jobs, with the protections of the HTTP ports. It is loaded only
 * where a port is given.
 */
import {
  type handleUnaryCall,
  Server,
  ServerCredentials,
  type ServerUnaryCall,
  type sendUnaryData,
  status,
  type UntypedHandleCall,
} from '@grpc/grpc-js';
import { LIMITS, overLimit } from '../../lib/contract/limits.ts';
import type { Caller } from '../../lib/contract/values.ts';
import { within } from '../../lib/http/response.ts';
import { callerIsGone } from '../../lib/pipeline/deadline.ts';
import type { Access } from '../machine/access.ts';
import { listenError } from '../machine/ports.ts';
import { Admission, MAX_CALLS, MAX_HELD_BYTES, tooMany } from './admission.ts';
import { type Jobs, METHODS, type Method, REFUSED, SERVICE_PATH } from './methods.ts';
import { statusOf } from './status.ts';
import { writeMessage } from './write.ts';

/** How long accepted calls may take when the service stops, in ms, where no job says more. */
const STOP_MS = 10_000;

const OPTIONS = {
  'grpc.max_receive_message_length': LIMITS.frameBytes,
  'grpc.max_send_message_length': LIMITS.frameBytes,
  'grpc.max_concurrent_streams': MAX_CALLS,
  // Finds clients that are gone without a word.
  'grpc.keepalive_time_ms': 60_000,
  'grpc.keepalive_timeout_ms': 20_000,
  'grpc.enable_channelz': 0,
};

export interface GrpcOptions {
  /** 0 takes any free port. */
  readonly port: number;
  readonly access: Access;
  readonly jobs: Jobs;
  /** How long a message may take to arrive, in ms; default 30,000. */
  readonly readMs?: number;
  /** Bytes of all messages whose calls run, default 512 MiB; further calls are refused. */
  readonly maxHeldBytes?: number;
}

export interface GrpcServer {
  readonly port: number;
  /** Stops listening, waits for calls that run, and closes the other connections. */
  close(): Promise<void>;
}

export async function startGrpc(options: GrpcOptions): Promise<GrpcServer> {
  const { port, access, jobs, readMs, maxHeldBytes = MAX_HELD_BYTES } = options;
  const server = new Server({ ...OPTIONS, interceptors: [new Admission(access, readMs).interceptor] });
  const held = { bytes: 0, most: maxHeldBytes };
  const unary = Object.entries(METHODS).map(
    ([name, method]) => [name, handlerOf(method, jobs, held)] as const,
  );
  const refused = Object.entries(REFUSED).map(([name, details]) => [name, refusal(details)] as const);
  const handlers = [...unary, ...refused];
  server.addService(
    Object.fromEntries(handlers.map(([name]) => [name, definitionOf(name)])),
    Object.fromEntries<UntypedHandleCall>(handlers),
  );
  const bound = await bind(server, access.host, port);
  const stopMs = Math.max(STOP_MS, ...jobs.map((job) => job.stopMs ?? 0));
  let closed: Promise<void> | undefined;
  return { port: bound, close: () => (closed ??= closeServer(server, stopMs)) };
}

/** Bytes of the messages whose calls run. */
interface Held {
  bytes: number;
  readonly most: number;
}

/** Messages stay bytes here, so that what cannot be read is answered with an error of this service. */
function definitionOf(name: string) {
  const same = (bytes: Buffer) => bytes;
  const isStream = name === 'ModelStreamInfer';
  return {
    path: `${SERVICE_PATH}/${name}`,
    requestStream: isStream,
    responseStream: isStream,
    requestSerialize: same,
    requestDeserialize: same,
    responseSerialize: same,
    responseDeserialize: same,
  };
}

function handlerOf(method: Method, jobs: Jobs, held: Held): handleUnaryCall<Buffer, Buffer> {
  const limitMs = Math.max(...jobs.map(({ timeoutMs }) => timeoutMs));
  return (call, callback) => {
    const caller = new CallerOf(call, jobs);
    const answer = async () => {
      const bytes = call.request.byteLength;
      if (held.bytes + bytes > held.most) throw tooMany(`messages of ${held.bytes} bytes are under way`);
      held.bytes += bytes;
      try {
        return encoded(
          await method.run(jobs, {
            bytes: call.request,
            headers: call.metadata.getMap(),
            clock: clockOf(call, caller),
          }),
          method,
        );
      } finally {
        held.bytes -= bytes;
      }
    };
    void reply(() => within(limitMs, answer), callback);
  };
}

async function reply(answer: () => Promise<Buffer>, callback: sendUnaryData<Buffer>): Promise<void> {
  try {
    callback(null, await answer());
  } catch (error) {
    callback(statusOf(error));
  }
}

/** @throws too_large */
function encoded(answer: object, { answer: table }: Method): Buffer {
  const { parts, length } = writeMessage(answer, table);
  if (length > LIMITS.frameBytes) throw overLimit('frameBytes', `the answer has ${length} bytes, which are`);
  return Buffer.concat(parts, length);
}

class CallerOf implements Caller {
  readonly #call: ServerUnaryCall<Buffer, Buffer>;
  #left: AbortController | undefined;

  constructor(call: ServerUnaryCall<Buffer, Buffer>, jobs: Jobs) {
    this.#call = call;
    // Also emitted when its deadline is over, and after the answer.
    call.once('cancelled', () => {
      this.#left?.abort(callerIsGone());
      for (const job of jobs) job.onLeave?.();
    });
  }

  get presence(): Caller['presence'] {
    const isOver = this.#call.cancelled || Number(this.#call.getDeadline()) <= Date.now();
    return isOver ? 'gone' : 'waits';
  }

  get signal(): AbortSignal {
    this.#left ??= new AbortController();
    if (this.presence === 'gone') this.#left.abort(callerIsGone());
    return this.#left.signal;
  }
}

/** The time that a call has: none once its caller has left. */
function clockOf(call: ServerUnaryCall<Buffer, Buffer>, caller: Caller) {
  return (timeoutMs: number) => {
    const endMs = performance.now() + Math.min(timeoutMs, Number(call.getDeadline()) - Date.now());
    const getRemainingTimeInMillis = () => (call.cancelled ? 0 : endMs - performance.now());
    return { getRemainingTimeInMillis, caller };
  };
}

/** Suits calls with one message and with streams. */
function refusal(details: string): UntypedHandleCall {
  const error = { code: status.UNIMPLEMENTED, details };
  return (call: object, callback?: (error: object) => void) => {
    if (callback) callback(error);
    else (call as NodeJS.EventEmitter).emit('error', error);
  };
}

/** @throws bad_config */
async function bind(server: Server, host: string, port: number): Promise<number> {
  const address = `${host.includes(':') ? `[${host}]` : host}:${port}`;
  try {
    return await new Promise<number>((resolve, reject) => {
      server.bindAsync(address, ServerCredentials.createInsecure(), (error, bound) => {
        if (error) reject(error);
        else resolve(bound);
      });
    });
  } catch (error) {
    throw await listenError(error, { port, host, option: '--grpc-port' });
  }
}

async function closeServer(server: Server, stopMs: number): Promise<void> {
  let timer: NodeJS.Timeout | undefined;
  await new Promise<void>((resolve) => {
    timer = setTimeout(resolve, stopMs);
    server.tryShutdown(() => resolve());
  });
  clearTimeout(timer);
  server.forceShutdown();
}
