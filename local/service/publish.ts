/** Publishes the model of a job on this machine. */
import type { JobConfig } from '../../lib/config/job.ts';
import { readVerification } from '../../lib/contract/verification.ts';
import { keptGoldenNotes, verificationNotes } from '../../lib/contract/verification-text.ts';
import type { ModelLocation } from '../../lib/registry/download.ts';
import { publishModel } from '../../lib/registry/publish.ts';
import type { S3Client } from '../../lib/s3/objects.ts';
import type { ModelProcess } from '../../onnx-import/process.ts';
import type { ServedModel } from './model.ts';

interface Place {
  readonly s3: S3Client;
  readonly location: ModelLocation;
}

/** The part of a job's start that its model needs. */
interface OwnModel {
  readonly job: JobConfig;
  /** Its directory, imported where it was not ONNX. */
  readonly model: ServedModel;
  readonly dropGolden?: boolean | undefined;
}

interface Services {
  readonly readyMs?: number | undefined;
  readonly modelProcess?: ModelProcess | undefined;
}

/**
 * @param activate false: the version passes everything that a start asks of it, and is only stored
 * @returns `stored` is the model's file where this version was published before: no request was made of it, because the
 * caller makes one of the opened model. @throws bad_model
 */
export async function publishOwn(
  { job, model, dropGolden }: OwnModel,
  { readyMs, modelProcess: process }: Services,
  { s3, location }: Place,
  activate = true,
) {
  const { directory, notes, importReport } = model;
  const known = readVerification(importReport?.verification);
  let stored: string | undefined;
  const { version, verification, keptGolden } = await publishModel(s3, location, directory, {
    activate,
    dropGolden,
    endsCanary: true,
    verify: async (file, before, kept) => {
      // Loaded on demand, because publishing needs no converter.
      const { verifyVersion } = await import('../../release/version.ts');
      if (before !== undefined) stored = file;
      const gate = before === undefined || !activate;
      return verifyVersion(file, { known: before ?? known, kept, job, gate, readyMs, process });
    },
  });
  const allNotes = [
    ...notes,
    ...keptGoldenNotes(keptGolden),
    ...verificationNotes(verification, job.batching),
  ];
  return { version, verification, notes: allNotes, stored };
}
