/**
 * Everything that a version has to pass before it may serve: its verification, one request through each endpoint, and its
 * golden requests.
 */
import { dirname } from 'node:path';
import type { JobConfig } from '../../lib/config/job.ts';
import type { Verification } from '../../lib/contract/verification.ts';
import { assertGolden } from '../golden/check.ts';
import { proofOptions } from './options.ts';
import { type VerifyOptions, verifyModel } from './verify.ts';

interface VersionOptions extends VerifyOptions {
  /** The settings under which the version is going to serve. */
  readonly job: JobConfig;
}

/** @param file the model; golden requests are beside it. @throws bad_model with the reason; the signal's reason */
export async function verifyVersion(file: string, options: VersionOptions): Promise<Verification> {
  const { job, signal } = options;
  const verification = await verifyModel(file, { ...proofOptions(job), ...options });
  // One that was verified before was asked then.
  const gate = verification !== options.known;
  await assertGolden(dirname(file), { file, job, verification, gate, signal });
  return verification;
}
