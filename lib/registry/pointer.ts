/**
 * Reads and replaces current.json, which names the serving version and those before it. A write fails if current.json
 * has changed since it was read, because another version serves then. An unreadable pointer can be replaced and has
 * no history.
 */

import { ServingError } from '../contract/errors.ts';
import { present } from '../contract/present.ts';
import type { Unknown, Verification } from '../contract/verification.ts';
import { putTextIf } from '../s3/conditional.ts';
import { getTaggedText, type S3Client } from '../s3/objects.ts';
import { addressText, isVersion, type ModelLocation, unreachable } from './download.ts';
import { isGolden } from './golden.ts';

/** A version that was made to serve. */
export interface Activation {
  readonly version: string;
  /** ISO 8601. */
  readonly at: string;
}

export interface CurrentModel {
  /** The ETag of the pointer as read; undefined when there is none. */
  readonly etag: string | undefined;
  /** Undefined without a valid pointer. */
  readonly version: string | undefined;
  /** The oldest first, the serving one last. A rollback removes the versions after its target. */
  readonly history: readonly Activation[];
}

/** A file in a pointer or manifest. */
export interface VersionFile {
  readonly path: string;
  readonly bytes: number;
  /** Hex. */
  readonly sha256: string;
}

/** The pointer's data about the version that it names. */
export interface VersionContent {
  readonly files: readonly VersionFile[];
  readonly verification?: Verification | undefined;
}

/** Activations that `current.json` keeps, which stays under its 1 MiB read limit so. Older ones are dropped. */
const MAX_HISTORY = 50;

/** @throws model_unavailable when S3 cannot be reached */
export async function readCurrent(s3: S3Client, location: ModelLocation): Promise<CurrentModel> {
  const tagged = await getTaggedText(s3, pointerAddress(location)).catch((error: unknown) => {
    throw unreachable(location, error);
  });
  if (!tagged) return { etag: undefined, version: undefined, history: [] };
  const { version, history } = parse(tagged.text);
  if (!isVersion(version)) return { etag: tagged.etag, version: undefined, history: [] };
  const known = Array.isArray(history) ? history.filter(isActivation) : [];
  // A pointer from before there was a history, or one written by hand.
  const whole = known.at(-1)?.version === version ? known : [...known, { version, at: '' }];
  return { etag: tagged.etag, version, history: whole };
}

/**
 * @param current the pointer to replace
 * @param history ends with the new version
 * @throws conflict when another version was made to serve since `current` was read; model_unavailable
 */
export async function promote(
  s3: S3Client,
  location: ModelLocation,
  current: CurrentModel,
  { files, verification }: VersionContent,
  history: readonly Activation[],
): Promise<void> {
  const { version } = present(history.at(-1), 'activation in the history');
  const served = files.filter(({ path }) => !isGolden(path));
  const document = { version, files: served, verification, history: history.slice(-MAX_HISTORY) };
  const text = `${JSON.stringify(document, undefined, 2)}\n`;
  // Also checked before, because not every store supports the condition.
  const now = await readCurrent(s3, location);
  const isSame = now.etag === current.etag;
  const written = isSame && (await put(s3, location, text, current.etag));
  if (written) return;
  const other = isSame ? (await readCurrent(s3, location)).version : now.version;
  throw new ServingError(
    'conflict',
    `${addressText(location)}: version ${other ?? '(none)'} was made to serve in the meantime, instead of ` +
      `${current.version ?? 'none'}; ${version} was not. Look, and do it again if it is still meant`,
  );
}

function put(s3: S3Client, location: ModelLocation, text: string, etag: string | undefined) {
  return putTextIf(s3, pointerAddress(location), text, etag).catch((error: unknown) => {
    throw unreachable(location, error);
  });
}

function pointerAddress({ bucket, prefix }: ModelLocation) {
  return { bucket, key: `${prefix}current.json` };
}

function parse(text: string): { readonly version?: unknown; readonly history?: unknown } {
  try {
    const value: unknown = JSON.parse(text);
    return typeof value === 'object' && value !== null ? value : {};
  } catch {
    return {};
  }
}

function isActivation(value: unknown): value is Activation {
  const { version, at }: Unknown<Activation> = Object(value);
  return isVersion(version) && typeof at === 'string' && at.length < 64;
}
