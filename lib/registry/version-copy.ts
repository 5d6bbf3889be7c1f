/** A version of S3 on this machine, for as long as something looks at it. */
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { modelUnavailable, withPathAs } from '../contract/errors.ts';
import type { S3Client } from '../s3/objects.ts';
import { downloadModel, type ModelLocation, type ModelPointer } from './download.ts';
import { pointerOf, readManifest } from './versions.ts';

export interface ModelPlace {
  readonly s3: S3Client;
  readonly location: ModelLocation;
}

/**
 * Calls `work` with the folder of a copy, which is removed afterwards.
 * @throws model_unavailable; the errors of `work`, in which the version stands for the folder
 */
export async function withVersionCopy<T>(
  { s3, location }: ModelPlace,
  version: ModelPointer,
  work: (directory: string) => Promise<T>,
): Promise<T> {
  const folder = await mkdtemp(join(tmpdir(), 'cluster-serving-version-'));
  try {
    return await work(await downloadModel(s3, location, version, folder));
  } catch (error) {
    throw withPathAs(error, join(folder, version.version), `version ${version.version}`);
  } finally {
    await rm(folder, { recursive: true, force: true });
  }
}

/** A version by its name, whether or not it serves. @throws model_unavailable when it is not there, or incomplete */
export async function readVersion({ s3, location }: ModelPlace, version: string): Promise<ModelPointer> {
  const manifest = await readManifest(s3, location, version);
  if (!manifest)
    throw modelUnavailable(
      `version ${version}: there is none, or its upload broke off; \`model list\` shows all`,
    );
  return pointerOf(manifest, location);
}
