/**
 * In: the settings of a start. Out: a service that runs on without us, once it has said that it is ready.
 * Trap: a process that was started is not a service that answers. We wait until it says so, or ends, or its time is
 * up; and what did not get ready in time is ended, so that a failed start leaves nothing behind.
 */
import { type ChildProcess, spawn } from 'node:child_process';
import { open, rename, rm, stat } from 'node:fs/promises';
import { type ErrorRecord, isErrorCode, ServingError } from '../lib/contract/errors.ts';
import { claimFolder, logPath, type StackRecord } from '../local/data-folder.ts';
import { installation } from '../local/installation.ts';
import { type StartSettings, startArguments } from '../local/start-options.ts';
import type { Output } from './output.ts';

/** What the started process sends to the one that started it. */
export type StartNews =
  | { readonly ready: StackRecord; readonly sample?: SampleSummary }
  | { readonly failed: ErrorRecord };

export interface SampleSummary {
  readonly right: number;
  readonly of: number;
}

export interface Started {
  readonly record: StackRecord;
  readonly sample: SampleSummary | undefined;
}

const MAX_LOG_BYTES = 8 * 1024 * 1024;
const TAIL_BYTES = 8 * 1024;
const TAIL_LINES = 20;
const STOP_LIMIT_MS = 10_000;
const LAST_WORDS_MS = 1_000;

/** @throws what the process failed with; timeout when it is not ready after `timeoutMs` */
export async function startInBackground(
  settings: StartSettings,
  timeoutMs: number,
  output: Output,
): Promise<Started> {
  await claimFolder(settings.dataDir);
  const path = logPath(settings.dataDir);
  await rotate(path);
  const log = await open(path, 'a');
  const { size: from } = await log.stat();
  const args = [installation().command, 'start', '--foreground', ...startArguments(settings.startedWith)];
  const child = spawn(process.execPath, args, {
    detached: true,
    stdio: ['ignore', log.fd, log.fd, 'ipc'],
  });
  const ended = endOf(child);
  try {
    const news = await firstNews(child, ended, timeoutMs);
    if ('ready' in news) {
      child.disconnect();
      child.unref();
      return { record: news.ready, sample: news.sample };
    }
    await end(child, ended);
    const { code, message } = news.failed;
    // Its last line is mostly the very message that follows here.
    const tail = (await tailOf(path, from)).filter((line) => line !== `error: ${message}`);
    if (tail.length > 0) output.note(tail.map((line) => `  | ${line}`).join('\n'));
    throw new ServingError(isErrorCode(code) ? code : 'internal', `${message}\nthe whole log: ${path}`);
  } finally {
    await log.close();
  }
}

/** What the process says first; its end, our time limit and a Ctrl-C count as failures. */
async function firstNews(child: ChildProcess, ended: Promise<string>, timeoutMs: number): Promise<StartNews> {
  let settle: (news: StartNews) => void = () => undefined;
  const news = new Promise<StartNews>((resolve) => {
    settle = resolve;
  });
  const fail = (code: ErrorRecord['code'], message: string) => settle({ failed: { code, message } });
  const interrupt = () => fail('cancelled', 'interrupted; the start was called off');
  const timer = setTimeout(
    () => fail('timeout', `the service was not ready after ${timeoutMs / 1000} s; --timeout allows more`),
    timeoutMs,
  );
  child.once('message', (message) => settle(message as StartNews));
  void ended.then((how) => fail('internal', `the service ended before it was ready: ${how}`));
  process.on('SIGINT', interrupt).on('SIGTERM', interrupt);
  try {
    return await news;
  } finally {
    clearTimeout(timer);
    process.off('SIGINT', interrupt).off('SIGTERM', interrupt);
  }
}

function endOf(child: ChildProcess): Promise<string> {
  return new Promise((resolve) => {
    child.once('error', (error) => resolve(error.message));
    child.once('exit', (code, signal) => {
      const tell = () => resolve(signal ?? `exit code ${code}`);
      // Its last words may still be in the channel, which is read to its end before it counts as closed.
      if (!child.connected) return tell();
      child.once('disconnect', tell);
      setTimeout(tell, LAST_WORDS_MS).unref();
    });
  });
}

async function end(child: ChildProcess, ended: Promise<string>): Promise<void> {
  child.kill('SIGTERM');
  const timer = setTimeout(() => child.kill('SIGKILL'), STOP_LIMIT_MS);
  await ended;
  clearTimeout(timer);
}

/** The last lines that this start wrote. */
async function tailOf(path: string, from: number): Promise<string[]> {
  const file = await open(path, 'r');
  try {
    const { size } = await file.stat();
    const start = Math.max(from, size - TAIL_BYTES);
    const { buffer, bytesRead } = await file.read(Buffer.alloc(Math.max(0, size - start)), {
      position: start,
    });
    const lines = buffer.toString('utf8', 0, bytesRead).trimEnd().split('\n');
    return lines.filter((line) => line !== '').slice(-TAIL_LINES);
  } finally {
    await file.close();
  }
}

/** Starts append to one file; a large one makes room, and the one before it is kept. */
async function rotate(path: string): Promise<void> {
  const size = await stat(path).then(
    (found) => found.size,
    () => 0,
  );
  if (size <= MAX_LOG_BYTES) return;
  await rm(`${path}.1`, { force: true });
  await rename(path, `${path}.1`);
}
