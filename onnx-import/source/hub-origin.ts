/** The note beside a model from the hub: where it is from, and the digest of each file, by which the copy is used again. */
import { readFileSync } from 'node:fs';
import { join } from 'node:path';

export type HubDigest = { readonly sha256: string } | { readonly gitSha1: string };

export interface ListedFile {
  /** In the repository, with `/`. */
  readonly path: string;
  readonly bytes: number;
  readonly digest: HubDigest;
}

/** Hidden, as no file of a model may be. */
export const ORIGIN_FILE = '.hub.json';

export interface HubOrigin {
  /** `org/name` */
  readonly repo: string;
  readonly commit: string;
}

export interface StoredOrigin extends HubOrigin {
  /** With their paths in the folder. */
  readonly files: readonly ListedFile[];
}

/** Undefined where the folder is not from the hub. */
export function readOrigin(folder: string): StoredOrigin | undefined {
  try {
    const value = JSON.parse(readFileSync(join(folder, ORIGIN_FILE), 'utf8')) as Partial<StoredOrigin>;
    const { repo, commit, files } = value;
    if (typeof repo === 'string' && typeof commit === 'string' && Array.isArray(files))
      return { repo, commit, files };
  } catch {
    // There is no note, or it is not one of ours.
  }
  return undefined;
}
