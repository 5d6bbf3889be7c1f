/**
 * The clients of the AWS SDK: what they send arrives at the modelled service after a delay, or not; they wait, give up an
 * attempt after 7 s, and try again as the SDK does (test/simulation/models.system.test.ts compares).
 */
import type { SimulatedProcess } from '../machine/process.ts';

/** An error as the SDK throws it. */
export function awsError(name: string, message: string, status: number, more: object = {}): Error {
  return Object.assign(new Error(message), {
    name,
    $fault: 'client',
    $metadata: { httpStatusCode: status },
    ...more,
  });
}

export interface Call {
  readonly service: 'sqs' | 's3';
  readonly operation: string;
  readonly input: object;
}

/** The way of one attempt. */
export interface Fate {
  /** Ms to the service, and back. */
  readonly thereMs: number;
  readonly backMs: number;
  /** `lost`: it does not arrive. `unanswered`: it does its work, and its answer does not arrive. */
  readonly what: 'arrives' | 'lost' | 'unanswered' | 'refused';
}

export interface Services {
  /** Does the work, at once. @throws the service's error */
  readonly serve: (call: Call, process: SimulatedProcess) => object;
  readonly fate: (call: Call, process: SimulatedProcess) => Fate;
}

const ATTEMPTS = 4;
const ATTEMPT_MS = 7_000;
const FIRST_PAUSE_MS = 100;
/** Bytes of one piece of a body. */
const PIECE_BYTES = 1_500;

function isRetried(error: unknown): boolean {
  const { $metadata }: { $metadata?: { httpStatusCode?: number } } = Object(error);
  const status = $metadata?.httpStatusCode ?? 500;
  return status >= 500 || status === 429;
}

/** Sends a call as the SDK does. @throws the service's error, AbortError */
export function send(
  process: SimulatedProcess,
  services: Services,
  call: Call,
  signal?: AbortSignal,
): Promise<object> {
  const { clock } = process;
  const name = `${call.service} ${call.operation} ${++process.askedCount}`;
  process.asked.add(name);
  return new Promise<object>((resolve, reject) => {
    let timer: { close(): void } | undefined;
    const settle = (end: () => void) => {
      signal?.removeEventListener('abort', onAbort);
      timer?.close();
      process.asked.delete(name);
      end();
    };
    const onAbort = () =>
      settle(() => reject(Object.assign(new Error('Request aborted'), { name: 'AbortError' })));
    if (signal?.aborted) return onAbort();
    signal?.addEventListener('abort', onAbort);
    let isSettled = false;
    const attempt = (count: number) => {
      let isOver = false;
      const failed = (error: unknown) => {
        if (isOver || isSettled || signal?.aborted) return;
        isOver = true;
        timer?.close();
        if (count >= ATTEMPTS || !isRetried(error)) {
          isSettled = true;
          settle(() => reject(error));
          return;
        }
        const pauseMs =
          FIRST_PAUSE_MS * 2 ** (count - 1) * process.machine.choices.next(`pause ${process.name}`);
        timer = clock.setTimeout(() => attempt(count + 1), pauseMs);
      };
      const answered = (answer: object) => {
        if (isOver || isSettled || signal?.aborted) return;
        isSettled = true;
        settle(() => resolve(answer));
      };
      const late = () =>
        failed(Object.assign(new Error(`no answer within ${ATTEMPT_MS} ms`), { name: 'TimeoutError' }));
      timer = clock.setTimeout(late, ATTEMPT_MS);
      travel(process, services, call, { answered, failed });
    };
    attempt(1);
  });
}

interface Ends {
  readonly answered: (answer: object) => void;
  readonly failed: (error: unknown) => void;
}

function travel(process: SimulatedProcess, services: Services, call: Call, { answered, failed }: Ends): void {
  const { scheduler } = process.machine;
  const { thereMs, backMs, what } = services.fate(call, process);
  if (what === 'lost') return;
  scheduler.after(thereMs, undefined, () => {
    if (what === 'refused') {
      process.after(backMs, () =>
        failed(Object.assign(new Error('connect ECONNREFUSED'), { code: 'ECONNREFUSED' })),
      );
      return;
    }
    let answer: object | undefined;
    let error: unknown;
    try {
      answer = services.serve(call, process);
    } catch (thrown) {
      error = thrown;
    }
    if (what === 'unanswered') return;
    process.after(backMs, () => (answer ? answered(answer) : failed(error)));
  });
}

class Command {
  readonly input: object;

  constructor(input: object) {
    this.input = input;
  }
}

function commands<const Name extends string>(names: readonly Name[]) {
  return Object.fromEntries(names.map((name) => [name, { [name]: class extends Command {} }[name]]));
}

/** The module `@aws-sdk/client-s3` or `@aws-sdk/client-sqs`. */
export function sdkModule(process: SimulatedProcess, services: Services, service: Call['service']) {
  class Client {
    readonly config = {
      credentials: async () => ({ accessKeyId: 'id', secretAccessKey: 'key', sessionToken: undefined }),
    };
    readonly middlewareStack = { add: () => undefined };

    async send(command: Command, { abortSignal }: { abortSignal?: AbortSignal } = {}) {
      const operation = command.constructor.name.replace(/Command$/, '');
      const answer = await send(process, services, { service, operation, input: command.input }, abortSignal);
      const { Body }: { Body?: Buffer } = answer;
      return Body === undefined ? answer : { ...answer, Body: pieces(Body) };
    }

    destroy(): void {}
  }
  if (service === 'sqs')
    return { SQSClient: Client, ...commands(['SendMessageBatchCommand', 'GetQueueUrlCommand']) };
  return {
    S3Client: Client,
    ...commands([
      'GetObjectCommand',
      'PutObjectCommand',
      'HeadObjectCommand',
      'ListObjectsV2Command',
      'DeleteObjectsCommand',
      'AbortMultipartUploadCommand',
      'CompleteMultipartUploadCommand',
      'CreateMultipartUploadCommand',
      'UploadPartCommand',
    ]),
  };
}

async function* pieces(body: Buffer): AsyncGenerator<Buffer> {
  for (let at = 0; at < body.length; at += PIECE_BYTES) yield body.subarray(at, at + PIECE_BYTES);
}

/** The module `@aws-sdk/lib-storage`: an upload of one part. */
export function uploadModule(put: new (input: object) => Command) {
  return {
    Upload: class {
      readonly #options: {
        readonly client: { send(command: Command): Promise<object> };
        readonly params: { readonly Body: AsyncIterable<Buffer> };
      };

      constructor(options: {
        readonly client: { send(command: Command): Promise<object> };
        readonly params: { readonly Body: AsyncIterable<Buffer> };
      }) {
        this.#options = options;
      }

      on(): this {
        return this;
      }

      async done(): Promise<object> {
        const { client, params } = this.#options;
        const all: Buffer[] = [];
        for await (const piece of params.Body) all.push(piece);
        return client.send(new put({ ...params, Body: Buffer.concat(all) }));
      }
    },
  };
}
