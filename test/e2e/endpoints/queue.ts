/** The endpoints of one service behind which a queue is: the SDK, the Python client, /predictions, lines of JSON, and the bridge. */
import { type ChildProcessByStdio, spawn } from 'node:child_process';
import type { Socket } from 'node:net';
import { createInterface } from 'node:readline';
import type { Readable, Writable } from 'node:stream';
import { fileURLToPath } from 'node:url';
import { Redis } from 'ioredis';
import { ServingError } from '../../../lib/contract/errors.ts';
import type { Tensor } from '../../../lib/contract/tensor.ts';
import type { Inputs, Value } from '../../../lib/contract/values.ts';
import type { Stack } from '../../../local/service/stack.ts';
import { InputQueue, type InputValue, OutputQueue } from '../../../sdk/index.ts';
import { encodeArrowRecord } from '../../support/arrow-record.ts';
import { PYTHON, PYTHON_PACKAGE } from '../../support/python.ts';
import type { Hooks } from '../../support/runner.ts';
import { clientOptions } from '../../support/stack.ts';
import { all, arrayOf, type Endpoint, instanceOf } from './http.ts';
import {
  type Element,
  exactJson,
  type Output,
  readExact,
  type Said,
  type Sent,
  type SentRecord,
} from './record.ts';

const SCRIPT = fileURLToPath(new URL('./enqueue.py', import.meta.url));

interface Answered {
  readonly outputs?: readonly Output[];
  readonly code?: string;
  readonly error?: string;
}

const saidOf = ({ outputs, code = '', error = '' }: Answered): Said =>
  outputs ? { ok: true, outputs } : { ok: false, code, message: error };

const caught = (error: unknown): Said => {
  const { code, message } = ServingError.from(error);
  return { ok: false, code, message };
};

/** @param job the name of the job */
export async function queueEndpoints(
  t: Hooks,
  stack: Stack,
  job: string,
): Promise<Readonly<Record<string, Endpoint>>> {
  const options = clientOptions(stack);
  const input = new InputQueue({ ...options.input, name: job });
  const output = new OutputQueue({ ...options.output, name: job });
  const overHttp = new InputQueue({ frontendUrl: stack.url, name: job });
  const redis = new Redis(stack.redisUrl);
  t.after(async () => {
    redis.disconnect();
    await Promise.all([input.close(), output.close(), overHttp.close()]);
  });
  let count = 0;
  const uriOf = (endpoint: string) => `${endpoint} ${count++}`;
  const waited = async (uri: string): Promise<Said> => {
    try {
      const { outputs } = await output.wait(uri, { timeoutMs: 60_000 });
      return {
        ok: true,
        outputs: outputs.map(({ name, dtype, shape, data }) => {
          const floats =
            dtype === 'float16'
              ? new Float16Array(
                  (data as Uint16Array).buffer as ArrayBuffer,
                  (data as Uint16Array).byteOffset,
                  data.length,
                )
              : data;
          return { name, shape, data: Array.from(floats as ArrayLike<unknown>) };
        }),
      };
    } catch (error) {
      return caught(error);
    }
  };
  const enqueued = (queue: InputQueue) => async (record: SentRecord) => {
    const uri = uriOf('sdk');
    try {
      await queue.enqueue(uri, sdkInputs(record));
    } catch (error) {
      return caught(error);
    }
    return waited(uri);
  };
  const posted = async (type: string, uri: string, body: string) => {
    const headers = { 'content-type': type };
    const response = await fetch(`${stack.url}/predictions`, { method: 'POST', headers, body });
    const text = await response.text();
    if (response.status === 202) return waited(uri);
    const { records: [first] = [], ...rest } = JSON.parse(text) as Answered & {
      records?: readonly Answered[];
    };
    return saidOf(first ?? rest);
  };
  const line = (uri: string, record: SentRecord) => exactJson({ uri, instances: [instanceOf(record)] });
  return {
    'the SDK': enqueued(input),
    'the SDK over HTTP': enqueued(overHttp),
    async '/predictions'(record) {
      const uri = uriOf('json');
      return posted('application/json', uri, line(uri, record));
    },
    async 'lines of JSON'(record) {
      const uri = uriOf('ndjson');
      return posted('application/x-ndjson', uri, line(uri, record));
    },
    'the Python client': (record) => python(stack.url, uriOf('python'), record),
    async 'the bridge'(record) {
      const inputs = arrowInputs(record);
      if (!inputs) return undefined;
      const uri = uriOf('bridge');
      await redis.xadd(
        job,
        '*',
        'uri',
        uri,
        'data',
        Buffer.from(encodeArrowRecord(inputs)).toString('base64'),
      );
      return waited(uri);
    },
  };
}

function sdkInputs({ inputs }: SentRecord): Record<string, InputValue> {
  return Object.fromEntries(
    Object.entries(inputs).map(([name, sent]): [string, InputValue] => {
      const { dtype, shape, data } = sent;
      if (dtype === 'string') return [name, { dtype, shape, data: data as string[] }];
      return [name, { dtype, shape, data: arrayOf(sent) }];
    }),
  );
}

/** Numbers that are float32, by the names of the model: others lose digits, or bind in their order, by contract. */
function arrowInputs(record: SentRecord): Inputs | undefined {
  const { inputs, fault } = record;
  const isSame = ({ dtype, shape, data }: Sent) =>
    dtype === 'string'
      ? shape.length <= 1 && data.length === 1 && !String(data[0]).includes('|')
      : data.every(isFloat32);
  if (fault === 'unknown name' || fault === 'missing' || !all(record, isSame)) return undefined;
  const values = Object.entries(inputs).map(([name, sent]): [string, Value] => {
    const { dtype, shape, data } = sent;
    const tensor: Tensor =
      dtype === 'string'
        ? { dtype, shape, data: data as string[] }
        : { dtype: 'float32', shape, data: Float32Array.from(data, Number) };
    return [name, { kind: 'tensor', tensor }];
  });
  return new Map(values);
}

function isFloat32(value: Element): boolean {
  const single = Math.fround(Number(value));
  return (
    Number.isFinite(single) &&
    (typeof value === 'bigint' ? BigInt(single) === value : single === Number(value))
  );
}

const waiting = new Map<string, (said: Said) => void>();
let client: ChildProcessByStdio<Writable, Readable, null> | undefined;

/** One process for the records of all services, each a line of its input and of its output. It ends with this one. */
function startPython(): ChildProcessByStdio<Writable, Readable, null> {
  const child = spawn(PYTHON, [SCRIPT], {
    env: { ...process.env, PYTHONPATH: PYTHON_PACKAGE },
    stdio: ['pipe', 'pipe', 'inherit'],
  });
  createInterface({ input: child.stdout }).on('line', (line) => {
    const { key, ...answered } = readExact(line) as Answered & { key: string };
    waiting.get(key)?.(saidOf(answered));
    waiting.delete(key);
  });
  child.unref();
  for (const pipe of [child.stdin, child.stdout]) (pipe as Socket).unref();
  return child;
}

function python(url: string, uri: string, { inputs }: SentRecord): Promise<Said> {
  client ??= startPython();
  const written = Object.entries(inputs).map(([name, { dtype, shape, data }]) => {
    // Texts of numbers keep every digit, NaN and infinities.
    const elements =
      dtype === 'string' ? data : data.map((value) => (Object.is(value, -0) ? '-0.0' : String(value)));
    return [name, dtype, shape, elements];
  });
  const key = `${url} ${uri}`;
  client.stdin.write(`${JSON.stringify({ key, url, uri, inputs: written })}\n`);
  return new Promise((resolve) => waiting.set(key, resolve));
}
