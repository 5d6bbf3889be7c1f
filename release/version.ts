/**
 * Everything that a version has to pass before it may serve: it opens, its verification, one request through each endpoint,
 * and its golden requests. One process does all of it.
 */
import { dirname } from 'node:path';
import type { JobConfig } from '../lib/config/job.ts';
import { badModel, ServingError } from '../lib/contract/errors.ts';
import type { Verification } from '../lib/contract/verification.ts';
import type { KeptGolden } from '../lib/registry/kept-golden.ts';
import { isVerified, type VerifyOptions, verify } from '../onnx-import/index.ts';
import { type ModelProcess, withModelProcess } from '../onnx-import/process.ts';
import { assertGolden } from './golden/check.ts';
import { GOLDEN } from './golden/tasks.ts';
import { newModelProcess } from './model-process.ts';
import { proofOptions } from './options.ts';

export interface VersionOptions extends VerifyOptions {
  /** The settings under which the version is going to serve. */
  readonly job: JobConfig;
  /** Golden requests of the version that serves now. Default: none. */
  readonly kept?: KeptGolden | undefined;
  /** False: no request is made, because the caller makes one. Default true. */
  readonly gate?: boolean | undefined;
  /**
   * True for a deployment: a model is refused whose opening takes more than half of the function's time. A running function
   * opens a new version within a request, and nothing can stop the opening. Default false.
   */
  readonly isDeployed?: boolean | undefined;
  /** How long the model may take to open and to run on zeros, in ms. Default 60,000. */
  readonly readyMs?: number | undefined;
}

const READY_MS = 60_000;

/** @param file the model; golden requests are beside it. @throws bad_model with the reason; the signal's reason */
export async function verifyVersion(file: string, options: VersionOptions): Promise<Verification> {
  const { job, gate = true, kept, signal } = options;
  return withModelProcess(
    options.process,
    async (process) => {
      const proof = { ...proofOptions(job), ...options, process };
      if (gate || !(await isVerified(proof))) await assertOpens(file, process, options);
      const verification = await verify(file, proof);
      await assertGolden(dirname(file), { file, job, verification, gate, kept, signal, process });
      return verification;
    },
    newModelProcess,
  );
}

/** Opening runs the model, which may never end: in INIT of a function it would hang there. */
async function assertOpens(
  file: string,
  process: ModelProcess,
  { job, known, signal, isDeployed, readyMs: ms = READY_MS }: VersionOptions,
): Promise<void> {
  const run = { file, job, verification: known, requests: [], gate: undefined };
  try {
    const { openMs } = await process.ask(GOLDEN, run, { ms, signal });
    if (isDeployed) assertOpensWithin(openMs, job);
  } catch (error) {
    signal?.throwIfAborted();
    const { code, message } = ServingError.from(error);
    const slow = `the model was not ready after ${ms / 1000} s; loading it, or a run on zeros, may never end`;
    const why = code === 'timeout' ? slow : message;
    throw badModel(why.includes(file) ? why : `${file}: ${why}`);
  }
}

/** The part of a function's time that the opening may take; the rest is for the request that meets it. */
const OPEN_SHARE = 0.5;

/** @throws bad_model */
export function assertOpensWithin(openMs: number, { function: { timeoutSeconds } }: JobConfig): void {
  const limitMs = timeoutSeconds * 1000 * OPEN_SHARE;
  if (openMs <= limitMs) return;
  const seconds = (ms: number) => `${(ms / 1000).toPrecision(3)} s`;
  const needed = Math.ceil(openMs / OPEN_SHARE / 1000);
  throw badModel(
    `opening the model took ${seconds(openMs)} here; expected at most ${seconds(limitMs)}, half of function.timeoutSeconds, because a running function opens a new version within one request: set function.timeoutSeconds to ${needed} or more in config.yaml and deploy that first, or export a smaller model`,
  );
}
