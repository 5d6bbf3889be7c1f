/** `model import`: writes the model, and makes it a version of a job where one is named. */
import type { JobConfig } from '../../lib/config/job.ts';
import type { DiffReport } from '../../release/diff/report.ts';
import type { ImportOptions } from '../../release/import.ts';
import { EXIT, type Output } from '../output.ts';
import { uploadRefusal } from '../upload-refusal.ts';
import { changeLines } from './changes.ts';
import { described, importHere } from './import.ts';
import { importPlace, namedPlace, type PlaceValues, withS3 } from './place.ts';
import type { JudgedReplay } from './replay-gate.ts';

interface AcceptValues {
  readonly accept?: string | undefined;
}

export function acceptedOf({ accept = '' }: AcceptValues): string[] {
  return accept
    .split(',')
    .map((name) => name.trim())
    .filter(Boolean);
}

/** @param values say where it is uploaded to; without them it stays here */
export async function importTo(
  directory: string,
  options: Omit<ImportOptions, 'version'> & { readonly job: JobConfig },
  values: PlaceValues & AcceptValues & { readonly 'drop-golden'?: boolean | undefined },
  output: Output,
): Promise<number> {
  // Checked first, because an import may take minutes.
  const place = await importPlace(values);
  const imported = await importHere(directory, options, output);
  const { source, verification, measured } = imported.importReport;
  const { signal } = options;
  const published =
    place &&
    (await withS3(place, async ({ s3, location }) => {
      const { publishModel } = await import('../../lib/registry/publish.ts');
      const { verifyVersion } = await import('../../release/version.ts');
      const { diffWithServed } = await import('./served-diff.ts');
      const { replayOnCandidate } = await import('./replay-gate.ts');
      const deployed = { job: options.job, signal, isDeployed: true };
      const changes = { ...deployed, accept: acceptedOf(values), activate: true };
      let diff: DiffReport | undefined;
      let replay: JudgedReplay | undefined;
      const made = await publishModel(s3, location, imported.directory, {
        source,
        memoryBytes: measured.memoryGrowthBytes,
        named: namedPlace(place, options.job),
        dropGolden: values['drop-golden'],
        async verify(file, stored, kept) {
          const verified = await verifyVersion(file, { ...deployed, known: stored ?? verification, kept });
          const side = { file, verification: verified };
          diff = await diffWithServed({ s3, location }, side, changes, output);
          replay = await replayOnCandidate({ s3, location }, side, changes, output);
          return verified;
        },
        signal,
      });
      return { ...made, diff, replay };
    }).catch((error: unknown) => {
      throw uploadRefusal(error, place, imported.directory);
    }));
  const { text, imageAdvice } = await described(imported.importReport, options.job);
  const lines = [text, '', `written to ${imported.directory}`];
  if (published)
    lines.push(`version ${published.version} serves from ${place.text}`, ...changeLines(published));
  const document = published && {
    published: {
      to: place.text,
      version: published.version,
      diff: published.diff,
      replay: published.replay,
    },
  };
  output.answer({ ...imported, imageAdvice, ...document }, lines.join('\n'));
  return EXIT.ok;
}
