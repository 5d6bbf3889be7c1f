/**
 * Starts the service as a separate process and waits until it reports that it is ready. A service that is not ready
 * in time is ended, so that a failed start leaves nothing behind.
 */
import { type ChildProcess, spawn } from 'node:child_process';
import { createReadStream } from 'node:fs';
import { open, rename, stat } from 'node:fs/promises';
import { text } from 'node:stream/consumers';
import { type ErrorRecord, isErrorCode, ServingError } from '../lib/contract/errors.ts';
import { installation } from '../local/machine/installation.ts';
import { claimFolder, FILE_MODE, logPath, type StackRecord } from '../local/service/data-folder.ts';
import { type StartSettings, startArguments } from '../local/service/start-options.ts';
import type { Output } from './output.ts';

/** The message of the started process to its parent. */
export type StartReport = Started | { readonly failed: ErrorRecord };

export interface Started {
  readonly ready: StackRecord;
  readonly sample?: { readonly right: number; readonly of: number };
}

const MAX_LOG_BYTES = 8 * 1024 * 1024;
const TAIL_BYTES = 8 * 1024;
const TAIL_LINES = 20;
const STOP_LIMIT_MS = 10_000;
const LAST_WORDS_MS = 1_000;

/** @throws the error of the process; timeout when it is not ready after `timeoutMs` */
export async function startInBackground(settings: StartSettings, timeoutMs: number, output: Output) {
  await claimFolder(settings.dataDir);
  const path = logPath(settings.dataDir);
  const before = await stat(path).catch(() => undefined);
  // Renaming replaces the previous one.
  if (before && before.size > MAX_LOG_BYTES) await rename(path, `${path}.1`);
  const log = await open(path, 'a', FILE_MODE);
  const { size: from } = await log.stat();
  const args = [installation().command, 'start', '--foreground', ...startArguments(settings.startedWith)];
  const child = spawn(process.execPath, args, {
    detached: true,
    stdio: ['ignore', log.fd, log.fd, 'ipc'],
  });
  const ended = endOf(child);
  try {
    const startReport = await firstReport(child, ended, timeoutMs);
    if ('ready' in startReport) {
      child.disconnect();
      child.unref();
      return startReport;
    }
    child.kill('SIGTERM');
    const timer = setTimeout(() => child.kill('SIGKILL'), STOP_LIMIT_MS);
    await ended;
    clearTimeout(timer);
    const { code, message } = startReport.failed;
    // Its last line usually repeats the message.
    const tail = (await tailOf(path, from)).filter((line) => line !== `error: ${message}`);
    if (tail.length > 0) output.note(tail.map((line) => `  | ${line}`).join('\n'));
    throw new ServingError(isErrorCode(code) ? code : 'internal', `${message}\nthe whole log: ${path}`);
  } finally {
    await log.close();
  }
}

/** The first report of the process. Its end, the time limit and Ctrl-C are failures. */
async function firstReport(
  child: ChildProcess,
  ended: Promise<string>,
  timeoutMs: number,
): Promise<StartReport> {
  const { promise: startReport, resolve: settle } = Promise.withResolvers<StartReport>();
  const fail = (code: ErrorRecord['code'], message: string) => settle({ failed: { code, message } });
  const interrupt = () => fail('cancelled', 'interrupted; the start was called off');
  const timer = setTimeout(
    () => fail('timeout', `the service was not ready after ${timeoutMs / 1000} s; --timeout allows more`),
    timeoutMs,
  );
  child.once('message', (message) => settle(message as StartReport));
  void ended.then((how) => fail('internal', `the service ended before it was ready: ${how}`));
  process.on('SIGINT', interrupt).on('SIGTERM', interrupt);
  try {
    return await startReport;
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
      // Its last message may still be in the channel, which closes only when it is read.
      if (!child.connected) return tell();
      child.once('disconnect', tell);
      setTimeout(tell, LAST_WORDS_MS).unref();
    });
  });
}

/** The last lines of this start in the log. */
async function tailOf(path: string, from: number): Promise<string[]> {
  const { size } = await stat(path);
  const log = await text(createReadStream(path, { start: Math.max(from, size - TAIL_BYTES) }));
  const lines = log.split('\n').filter((line) => line.trim() !== '');
  return lines.slice(-TAIL_LINES);
}
