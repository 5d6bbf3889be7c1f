/**
 * Runs a job's functions in a child process with its own environment variables and its own /tmp, as an execution
 * environment of Lambda does. Several functions share one process to save time.
 */
import { fork } from 'node:child_process';
import { once } from 'node:events';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import type { APIGatewayProxyStructuredResultV2, SQSBatchResponse, SQSRecord } from 'aws-lambda';
import { childEnvironment } from '../support/environment.ts';
import type { FunctionName } from './code.ts';
import type { Invocation, Reply } from './function-process.ts';
import type { Code } from './kept.ts';

const CHILD = fileURLToPath(new URL('function-process.ts', import.meta.url));
const FUNCTION_TIMEOUT_MS = 30_000;
const KEPT_CHARACTERS = 10_000;

export interface FunctionEnvironment {
  /** @throws when the handler throws or the process ends */
  invoke(name: FunctionName, event: unknown): Promise<unknown>;
  /** @returns ids of the messages that failed */
  deliver(name: 'batch' | 'dead-letter', records: readonly SQSRecord[]): Promise<string[]>;
  request(name: FunctionName, event: unknown): Promise<APIGatewayProxyStructuredResultV2>;
  /** The end of what its functions logged. */
  log(): string;
  close(): Promise<void>;
}

export interface EnvironmentOptions {
  readonly code: Pick<Code, 'functionFile'>;
  readonly variables: Readonly<Record<string, string>>;
  /** Functions to load before the first event. */
  readonly load: readonly FunctionName[];
}

export async function startEnvironment(options: EnvironmentOptions): Promise<FunctionEnvironment> {
  const { code, variables, load } = options;
  const folder = await mkdtemp(join(tmpdir(), 'cs-environment-'));
  const child = fork(CHILD, [String(FUNCTION_TIMEOUT_MS), ...load.map((name) => code.functionFile(name))], {
    env: childEnvironment({ ...variables, TMPDIR: folder }),
    stdio: ['ignore', 'pipe', 'pipe', 'ipc'],
    execArgv: [],
  });
  let log = '';
  for (const stream of [child.stdout, child.stderr]) {
    stream?.on('data', (chunk) => {
      log = (log + String(chunk)).slice(-KEPT_CHARACTERS);
    });
  }
  const waiting = new Map<number, { resolve: (answer: unknown) => void; reject: (error: Error) => void }>();
  child.on('message', (reply: Reply) => {
    const { resolve, reject } = waiting.get(reply.id) ?? {};
    waiting.delete(reply.id);
    if ('error' in reply) reject?.(new Error(`${reply.error}\n${log}`));
    else resolve?.(reply.answer);
  });
  const ended = once(child, 'exit');
  child.once('exit', () => {
    for (const { reject } of waiting.values()) reject(new Error(`the functions' process ended:\n${log}`));
  });
  let count = 0;
  const invoke = (name: FunctionName, event: unknown) =>
    new Promise<unknown>((resolve, reject) => {
      const id = count++;
      waiting.set(id, { resolve, reject });
      child.send({ id, file: code.functionFile(name), event } satisfies Invocation, (error) => {
        if (error) reject(error);
      });
    });
  return {
    invoke,
    async deliver(name, records) {
      const { batchItemFailures } = (await invoke(name, { Records: records })) as SQSBatchResponse;
      return batchItemFailures.map(({ itemIdentifier }) => itemIdentifier);
    },
    request: async (name, event) => (await invoke(name, event)) as APIGatewayProxyStructuredResultV2,
    log: () => log,
    async close() {
      child.kill('SIGKILL');
      await ended;
      await rm(folder, { recursive: true, force: true });
    },
  };
}
