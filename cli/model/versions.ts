/**
 * `model list`, `model rollback`, `model prune`. A prune asks about versions by name and deletes only those, even if
 * others appear meanwhile.
 */
import type { JobConfig } from '../../lib/config/job.ts';
import { percentText } from '../../lib/contract/share.ts';
import { verificationNotes } from '../../lib/contract/verification-text.ts';
import { readCurrent } from '../../lib/registry/pointer.ts';
import {
  listVersions,
  type ModelVersion,
  removeVersion,
  rollBack,
  surplus,
} from '../../lib/registry/versions.ts';
import { assertGoldenHere } from '../../local/console/golden.ts';
import { confirmed } from '../confirm.ts';
import { bytesText } from '../dlq/text.ts';
import { EXIT, type Output } from '../output.ts';
import type { OpenPlace } from './place.ts';

export async function list({ s3, location, text }: OpenPlace, output: Output): Promise<number> {
  const versions = await listVersions(s3, location);
  if (versions.length === 0) {
    output.answer({ from: text, versions }, `no version of a model in ${text}; \`model push\` brings one`);
    return EXIT.ok;
  }
  const head = ['version     ', 'uploaded            ', '    size', 'files', 'from'].join('  ');
  const { canary } = await readCurrent(s3, location);
  const lines = versions.flatMap((one) => linesOf(one, canary?.share));
  const share = canary && { version: canary.version, share: canary.share, since: canary.since };
  output.answer({ from: text, versions, canary: share }, [head, ...lines].join('\n'));
  return EXIT.ok;
}

/** A line of the table, and below it what its verification says. */
function linesOf({ verification, ...one }: ModelVersion, share: number | undefined): string[] {
  return [
    `${lineOf(one)}${usedAs(one, share)}`,
    ...verificationNotes(verification).map((note) => `  ${note}`),
  ];
}

function lineOf({ version, uploadedAt, bytes, files, format }: ModelVersion): string {
  return [
    version.padEnd(12),
    `${uploadedAt.slice(0, 19)}Z`,
    bytesText(bytes).padStart(8),
    String(files).padStart(5),
    format ?? '(no manifest)',
  ].join('  ');
}

/** @param share that of the canary, if one runs */
function usedAs({ serves, before, trial }: ModelVersion, share: number | undefined): string {
  if (serves) return '  <- serves';
  if (trial === 'canary' && share !== undefined) return `  <- canary, ${percentText(share)}`;
  if (trial) return `  <- ${trial}`;
  // While a canary runs, it ends the canary.
  return before && share === undefined ? '  <- rollback goes here' : '';
}

export async function rollback(
  place: OpenPlace,
  version: string | undefined,
  job: () => Promise<JobConfig>,
  output: Output,
) {
  const { s3, location, text } = place;
  const rolled = await rollBack(s3, location, version, {
    check: async (wanted) => assertGoldenHere(place, wanted, await job()),
  });
  const now =
    rolled.from === rolled.version
      ? 'serves already'
      : `serves from ${text} again, instead of ${rolled.from ?? 'nothing'}`;
  const document = { version: rolled.version, from: rolled.from ?? null, to: text };
  output.answer(document, `version ${rolled.version} ${now}`);
  return EXIT.ok;
}

/** @param yes skips the question */
export async function prune(place: OpenPlace, keep: number, yes: boolean, output: Output) {
  const { s3, location, text } = place;
  const old = surplus(await listVersions(s3, location), keep);
  if (old.length === 0) {
    output.answer({ from: text, deleted: [] }, `at most ${keep} versions in ${text}: nothing to delete`);
    return EXIT.ok;
  }
  const bytes = bytesText(old.reduce((sum, one) => sum + one.bytes, 0));
  const names = old.map(({ version }) => version);
  const what = `deletes ${old.length} of the versions in ${text} for good, ${bytes}: ${names.join(', ')}`;
  if (!yes && !(await confirmed(what))) {
    output.answer({ from: text, deleted: [] }, 'nothing was deleted');
    return EXIT.failed;
  }
  const deleted: string[] = [];
  for (const name of names) if (await removeVersion(s3, location, name)) deleted.push(name);
  const left = names.length - deleted.length;
  const kept = left > 0 ? `; ${left} stayed, made to serve meanwhile` : '';
  output.answer({ from: text, deleted }, `${deleted.length} versions deleted, ${bytes}${kept}`);
  return EXIT.ok;
}
