/** Compares a model that is about to serve with the version that serves, and stops it when clients would get wrong results. */
import { ServingError } from '../../lib/contract/errors.ts';
import { readPointer } from '../../lib/registry/download.ts';
import { findModelFile } from '../../lib/registry/onnx-file.ts';
import { readCurrent } from '../../lib/registry/pointer.ts';
import { type ModelPlace, withVersionCopy } from '../../lib/registry/version-copy.ts';
import { ALL, assertUnbroken, type DiffOptions, diffVersions } from '../../release/diff/diff.ts';
import type { DiffReport } from '../../release/diff/report.ts';
import type { Side } from '../../release/diff/run.ts';
import type { Output } from '../output.ts';

/** Accepts a replay, as a name of `--accept`. */
export const FLIPS = 'flips';

export interface ServedDiffOptions extends DiffOptions {
  /** Names of changes of which clients know. */
  readonly accept: readonly string[];
  /** False: the model is only uploaded, so nothing stops it. */
  readonly activate: boolean;
}

/**
 * @returns undefined where no version serves, or the one that does cannot be opened, which is noted
 * @throws bad_model for changes that are not accepted; the signal's reason
 */
export async function diffWithServed(
  place: ModelPlace,
  after: Side,
  { accept, activate, ...options }: ServedDiffOptions,
  output: Output,
): Promise<DiffReport | undefined> {
  const { version } = await readCurrent(place.s3, place.location);
  if (version === undefined) return undefined;
  let report: DiffReport;
  try {
    const served = await readPointer(place.s3, place.location, undefined, options.signal);
    report = await withVersionCopy(place, served, async (directory) => {
      const before = { file: await findModelFile(directory), verification: served.verification };
      return diffVersions(before, after, options);
    });
  } catch (error) {
    options.signal?.throwIfAborted();
    output.note(
      `note: not compared with version ${version}, which serves: ${ServingError.from(error).message}`,
    );
    return undefined;
  }
  const known = [ALL, FLIPS];
  const stray = accept.filter(
    (name) => !known.includes(name) && !report.breaks.some((one) => one.name === name),
  );
  if (stray.length > 0) output.note(`note: --accept ${stray.join(',')}: no such change`);
  if (activate) assertUnbroken(report, version, accept);
  return report;
}
