/**
 * Runs a packaged function in a separate process that can be killed at any moment. An environment that died leaves
 * /tmp behind, and Lambda may give it to the next one, so this does too.
 */
import { type ChildProcess, fork } from 'node:child_process';
import { createHash } from 'node:crypto';
import { readdir, readFile, stat } from 'node:fs/promises';
import { join, relative } from 'node:path';
import { fileURLToPath } from 'node:url';
import type { SQSBatchResponse, SQSEvent } from 'aws-lambda';
import { stop } from 'esbuild';
import { buildFunctions, type FunctionName } from '../../../infra/build/functions.ts';
import { makeOnce } from '../kept.ts';

const ROOT = fileURLToPath(new URL('../../..', import.meta.url));
const CHILD = fileURLToPath(new URL('worker-child.mjs', import.meta.url));
const FUNCTION_TIMEOUT_MS = 30_000;
const PONG_WITHIN_MS = 80;

export interface Bundles {
  folder(name: FunctionName): string;
}

/** The sources of a bundle. */
const SOURCES = ['functions', 'lib', 'release', 'infra/build', 'package-lock.json'];
const CACHE = join(ROOT, 'node_modules', '.cache', 'test-bundles');

/** The deployed functions. */
export async function packagedFunctions(): Promise<Bundles> {
  const folder = join(CACHE, await sourceHash());
  await makeOnce(folder, async (partial) => {
    await buildFunctions({ root: ROOT, processor: 'x64', outFolder: relative(ROOT, partial) });
    // Its service is a process that holds our stderr open.
    await stop();
  });
  return { folder: (name) => join(folder, name) };
}

async function sourceHash(): Promise<string> {
  const hash = createHash('sha256');
  for (const source of SOURCES) {
    const path = join(ROOT, source);
    const isFolder = (await stat(path)).isDirectory();
    const names = isFolder ? (await readdir(path, { recursive: true })).sort() : [''];
    for (const name of names) {
      if (name.includes('node_modules') || (isFolder && !/\.\w+$/.test(name))) continue;
      hash.update(`${source}/${name}\0`).update(await readFile(join(path, name)));
    }
  }
  return hash.digest('hex').slice(0, 16);
}

export interface Worker {
  /** @throws when the process ends before the answer */
  invoke(event: SQSEvent): Promise<SQSBatchResponse>;
  /** Resolves when the thread does not answer any more: it is inside the model. */
  busy(): Promise<void>;
  /** SIGKILL, at this very moment. */
  kill(): void;
  /** Resolves when the process has ended. */
  readonly ended: Promise<void>;
  output(): string;
}

type Reply = { ready: true } | { answer: SQSBatchResponse } | { error: string };

/** Starts it; INIT runs at once and is waited for by the first event, not here. */
export function startWorker(
  folder: string,
  temp: string,
  environment: Readonly<Record<string, string>>,
): Worker {
  const child = fork(CHILD, [folder, String(FUNCTION_TIMEOUT_MS)], {
    // HOME: the AWS SDK asks for it, and a user without an entry in /etc/passwd has no other.
    env: { ...environment, HOME: temp, TMPDIR: temp, AWS_LAMBDA_RUNTIME_API: '127.0.0.1:9' },
    stdio: ['ignore', 'pipe', 'pipe', 'ipc'],
    execArgv: [],
  });
  let output = '';
  for (const stream of [child.stdout, child.stderr]) {
    stream?.on('data', (chunk) => {
      output = (output + String(chunk)).slice(-20_000);
    });
  }
  const ended = new Promise<void>((resolve) => child.once('exit', () => resolve()));
  const ready = next(child, ended, (reply) => 'ready' in reply);
  ready.catch(() => undefined);
  return {
    invoke: async (event) => {
      await ready;
      const answering = next(child, ended, (reply) => 'answer' in reply || 'error' in reply);
      // `answering` detects a killed child by its end; its channel may be closed earlier.
      if (child.connected) child.send({ event }, () => undefined);
      const reply = await answering;
      if ('answer' in reply) return reply.answer;
      throw new Error('error' in reply ? reply.error : 'no answer');
    },
    busy: async () => {
      for (;;) {
        const pong = new Promise<boolean>((resolve) => {
          const timer = setTimeout(() => resolve(false), PONG_WITHIN_MS);
          child.on('message', function heard(message) {
            if (message !== 'pong') return;
            child.off('message', heard);
            clearTimeout(timer);
            resolve(true);
          });
        });
        if (!child.connected) throw new Error(`the worker ended:\n${output}`);
        child.send('ping', () => undefined);
        if (!(await pong)) return;
      }
    },
    kill: () => void child.kill('SIGKILL'),
    ended,
    output: () => output,
  };
}

function next(child: ChildProcess, ended: Promise<void>, fits: (reply: Reply) => boolean): Promise<Reply> {
  return new Promise((resolve, reject) => {
    const hear = (reply: Reply | 'pong') => {
      if (reply === 'pong' || !fits(reply)) return;
      child.off('message', hear);
      resolve(reply);
    };
    child.on('message', hear);
    void ended.then(() => reject(new Error('the worker was killed')));
  });
}
