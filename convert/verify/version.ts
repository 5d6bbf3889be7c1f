/**
 * Everything that a version has to pass before it may serve: it opens, its verification, one request through each endpoint,
 * and its golden requests. One process does all of it.
 */
import { dirname } from 'node:path';
import type { JobConfig } from '../../lib/config/job.ts';
import { badModel, ServingError } from '../../lib/contract/errors.ts';
import type { Verification } from '../../lib/contract/verification.ts';
import type { KeptGolden } from '../../lib/registry/kept-golden.ts';
import { type ModelProcess, withModelProcess } from '../check/model-process.ts';
import { assertGolden } from '../golden/check.ts';
import { proofOptions } from './options.ts';
import { isKnown, type VerifyOptions, verifyModel } from './verify.ts';

interface VersionOptions extends VerifyOptions {
  /** The settings under which the version is going to serve. */
  readonly job: JobConfig;
  /** Golden requests of the version that serves now. Default: none. */
  readonly kept?: KeptGolden | undefined;
  /** False: no request is made, because the caller makes one. Default true. */
  readonly gate?: boolean | undefined;
  /** How long the model may take to open and to run on zeros, in ms. Default 60,000. */
  readonly readyMs?: number | undefined;
}

const READY_MS = 60_000;

/** @param file the model; golden requests are beside it. @throws bad_model with the reason; the signal's reason */
export async function verifyVersion(file: string, options: VersionOptions): Promise<Verification> {
  const { job, gate = true, kept, signal } = options;
  return withModelProcess(options.process, async (process) => {
    const proof = { ...proofOptions(job), ...options, process };
    if (gate || !(await isKnown(proof))) await assertOpens(file, process, options);
    const verification = await verifyModel(file, proof);
    await assertGolden(dirname(file), { file, job, verification, gate, kept, signal, process });
    return verification;
  });
}

/** Opening runs the model, which may never end: in INIT of a function it would hang there. */
async function assertOpens(
  file: string,
  process: ModelProcess,
  { job, known, signal, readyMs: ms = READY_MS }: VersionOptions,
): Promise<void> {
  const run = { file, job, verification: known, requests: [], gate: undefined };
  try {
    await process.ask('golden', run, { ms, signal });
  } catch (error) {
    signal?.throwIfAborted();
    const { code, message } = ServingError.from(error);
    const slow = `the model was not ready after ${ms / 1000} s; loading it, or a run on zeros, may never end`;
    const why = code === 'timeout' ? slow : message;
    throw badModel(why.includes(file) ? why : `${file}: ${why}`);
  }
}
