/** `model trial`, `model promote`, and what is checked before a version is put on trial. */
import { stat } from 'node:fs/promises';
import { join } from 'node:path';
import type { FurtherTrial } from '../../console/api.ts';
import type { JobConfig } from '../../lib/config/job.ts';
import { badConfig, ServingError } from '../../lib/contract/errors.ts';
import { modelAt, modelPrefix } from '../../lib/contract/names.ts';
import { percentText } from '../../lib/contract/share.ts';
import { addressText } from '../../lib/registry/download.ts';
import { type CurrentModel, readCurrent } from '../../lib/registry/pointer.ts';
import { modelFiles, type Trial } from '../../lib/registry/publish.ts';
import {
  type CanaryReport,
  readTrialReport,
  type ShadowReport,
  type TrialReport,
} from '../../lib/registry/trial-report.ts';
import { assertGoldenHere } from '../../local/console/golden.ts';
import { endTrial, furtherTrials, promoteTrial } from '../../local/console/trial.ts';
import { sameTrial } from '../../release/trial/watch.ts';
import { EXIT, type Output } from '../output.ts';
import type { OpenPlace } from './place.ts';

/** A report that is older was made by something that looks no more. */
const FRESH_MS = 2 * 3_600_000;
const MB = 1024 * 1024;
/** Opening a model takes its bytes, and what its runs need. */
const RESERVE = 1.25;

/** @throws conflict where nothing looks at trials; bad_config where both versions find no room */
export async function assertTriable(
  { s3, location }: OpenPlace,
  trial: Trial | undefined,
  directory: string,
): Promise<void> {
  if (!trial) return;
  const { job, model } = modelAt(location.prefix) ?? {};
  const isFurther = model !== undefined && job !== undefined;
  // The look at all models of a job reports beside its own.
  const report = await readTrialReport(s3, isFurther ? { ...location, prefix: modelPrefix(job) } : location);
  if (!report || Date.now() - Date.parse(report.at) > FRESH_MS)
    throw new ServingError(
      'conflict',
      `nothing looks at versions on trial in ${addressText(location)}: set release.trials: true in config.yaml and deploy, or start the service; it looks within a minute then`,
    );
  if (trial.kind === 'shadow' && !report.isCapturing)
    throw new ServingError(
      'conflict',
      'nothing is captured that a shadow could answer: set capture.share in config.yaml, and deploy or restart',
    );
  if (isFurther && !report.hasFurther)
    throw new ServingError(
      'conflict',
      `an earlier release looks at versions on trial, and not at those of further models, such as ${model}: deploy, or restart the service`,
    );
  if (trial.kind === 'canary')
    await assertRoom(report, await readCurrent(s3, location), directory, isFurther);
}

/** @param isFurther true for a further model, whose memory the push compares with `models.memoryMB` */
async function assertRoom(
  { room }: TrialReport,
  { content }: CurrentModel,
  directory: string,
  isFurther: boolean,
) {
  const paths = await modelFiles(directory);
  const sizes = await Promise.all(paths.map(async (path) => (await stat(join(directory, path))).size));
  const own = mb(sizes);
  const serving = mb(content?.files.map(({ bytes }) => bytes) ?? []);
  const memory = Math.ceil((own + (room.isShared ? serving : 0)) * RESERVE);
  const sum = `${room.isShared ? `${serving} MB of the version that serves and ` : ''}${own} MB of this one`;
  if (!isFurther && memory > room.memoryMB)
    throw badConfig(
      `a canary needs both versions in memory: ${sum}, with a quarter more for their runs, are ${memory} MB, and there are ${room.memoryMB} MB; set function.memoryMB higher and deploy, or push without --canary`,
    );
  if (own + serving > room.diskMB)
    throw badConfig(
      `a canary needs both versions on the disk: ${serving} and ${own} MB, and there are ${room.diskMB} MB; deploy with a larger --param tmpMB, or push without --canary`,
    );
}

function mb(bytes: readonly number[]): number {
  return Math.ceil(bytes.reduce((sum, one) => sum + one, 0) / MB);
}

/** @param isEnded ends what is on trial */
export async function showTrial(
  { s3, location, text }: OpenPlace,
  isEnded: boolean,
  output: Output,
): Promise<number> {
  if (isEnded) await endTrial({ s3, location });
  const { version, canary, shadow, ended } = await readCurrent(s3, location);
  const report = await readTrialReport(s3, location);
  const found = {
    canary: sameTrial(report?.canary, canary),
    shadow: sameTrial(report?.shadow, shadow),
  };
  const { files: _, verification: __, ...running } = canary ?? {};
  const further = await furtherTrials({ s3, location });
  const document = { from: text, serving: version, canary: canary && running, shadow, ended, found, further };
  const lines = [`serving   ${version ?? 'none'}`];
  if (canary)
    lines.push(
      `canary    ${canary.version}, ${percentText(canary.share)} of the records since ${timeText(canary.since)}`,
      ...canaryLines(found.canary),
    );
  if (shadow)
    lines.push(`shadow    ${shadow.version} since ${timeText(shadow.since)}`, ...shadowLines(found.shadow));
  if (ended)
    lines.push(`before    ${ended.version} was ${ended.end} at ${timeText(ended.at)}: ${ended.reason}`);
  if (!canary && !shadow)
    lines.push('nothing is on trial; `model push --canary 5%` or `--shadow` begins one');
  if (further.length > 0)
    lines.push(`on trial  ${further.map(furtherText).join(', ')}; \`--model\` shows one`);
  output.answer(document, lines.join('\n'));
  return EXIT.ok;
}

function furtherText({ model, canary, shadow }: FurtherTrial): string {
  const version = canary ? `canary ${canary.version}` : `shadow ${shadow?.version}`;
  return `${model} (${version})`;
}

function canaryLines(report: CanaryReport | undefined): string[] {
  if (!report) return ['          it has not been looked at yet'];
  const golden = { passed: 'passed', none: 'there are none', asking: 'being asked' }[report.golden];
  return [`          golden requests: ${golden}`, `          ${report.verdict}: ${report.reason}`];
}

function shadowLines(report: ShadowReport | undefined): string[] {
  if (!report) return ['          it has not been asked yet'];
  const { compared, flips, differ, otherEnds, notReplayable, problem } = report;
  const lines = [
    `          ${compared} captured records: ${flips} have another first class, ${differ} differ beyond the tolerance, ${otherEnds} end in another way`,
  ];
  if (notReplayable > 0)
    lines.push(`          ${notReplayable} could not be asked, because an input was not captured`);
  if (problem !== undefined) lines.push(`          the last replay failed: ${problem}`);
  return lines;
}

function timeText(iso: string): string {
  return `${iso.slice(0, 16).replace('T', ' ')} UTC`;
}

/** The canary serves; without one, the shadow does. */
export async function promote(
  place: OpenPlace,
  job: () => Promise<JobConfig>,
  output: Output,
): Promise<number> {
  const { version, from } = await promoteTrial(place, async (wanted) =>
    assertGoldenHere(place, wanted, await job()),
  );
  output.answer(
    { version, from: from ?? null, to: place.text },
    `version ${version} serves from ${place.text}, instead of ${from}`,
  );
  return EXIT.ok;
}
