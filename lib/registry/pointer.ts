/**
 * Reads and replaces current.json, which names the serving version, those before it, and a version that is on trial. A write
 * fails if current.json has changed since it was read, because another version serves then. An unreadable pointer can be
 * replaced and has no history.
 */

import { ServingError } from '../contract/errors.ts';
import { isCount, present } from '../contract/present.ts';
import { percentText } from '../contract/share.ts';
import { readVerification, type Unknown, type Verification } from '../contract/verification.ts';
import { putTextIf } from '../s3/conditional.ts';
import { getTaggedText, type S3Client } from '../s3/objects.ts';
import { addressText, isVersion, MOST_SHARE, type ModelLocation, unreachable } from './download.ts';
import { isGolden } from './golden.ts';

/** A version that was made to serve. */
export interface Activation {
  readonly version: string;
  /** ISO 8601. */
  readonly at: string;
}

/** A version that answers captured requests, and no others. */
export interface Shadow {
  readonly version: string;
  /** When it began, ISO 8601. */
  readonly since: string;
}

/** A version that answers a share of the records. */
export interface RunningCanary extends Shadow, VersionContent {
  /** From 0 to 0.5. */
  readonly share: number;
}

/** The end of the canary before. */
export interface EndedCanary {
  readonly version: string;
  readonly end: 'promoted' | 'rolled back';
  readonly reason: string;
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
  readonly canary?: RunningCanary | undefined;
  readonly shadow?: Shadow | undefined;
  readonly ended?: EndedCanary | undefined;
  /** The serving version's part of the pointer; undefined where none is valid. */
  readonly content?: VersionContent | undefined;
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
  /** Memory of a process for the open version, as its import measured it. */
  readonly memoryBytes?: number | undefined;
}

/** Activations that `current.json` keeps, which stays under its 1 MiB read limit so. Older ones are dropped. */
const MAX_HISTORY = 50;
/** Characters of the reason for which a canary ended. */
export const MOST_REASON = 500;

/** @throws model_unavailable when S3 cannot be reached */
export async function readCurrent(s3: S3Client, location: ModelLocation): Promise<CurrentModel> {
  const tagged = await getTaggedText(s3, pointerAddress(location)).catch((error: unknown) => {
    throw unreachable(location, error);
  });
  if (!tagged) return { etag: undefined, version: undefined, history: [] };
  const { version, history, files, verification, memoryBytes, ...trials } = parse(tagged.text);
  if (!isVersion(version)) return { etag: tagged.etag, version: undefined, history: [] };
  const known = Array.isArray(history) ? history.filter(isActivation) : [];
  // A pointer from before there was a history, or one written by hand.
  const whole = known.at(-1)?.version === version ? known : [...known, { version, at: '' }];
  const measured = isCount(memoryBytes) ? memoryBytes : undefined;
  const content = Array.isArray(files)
    ? { files, verification: readVerification(verification), memoryBytes: measured }
    : undefined;
  return { etag: tagged.etag, version, history: whole, content, ...readTrials(trials) };
}

/**
 * @param current the pointer to replace
 * @param history ends with the new version
 * @throws conflict when another version was made to serve since `current` was read, or a canary runs; model_unavailable
 */
export async function promote(
  s3: S3Client,
  location: ModelLocation,
  current: CurrentModel,
  content: VersionContent,
  history: readonly Activation[],
): Promise<void> {
  assertNoCanary(location, current);
  const { version } = present(history.at(-1), 'activation in the history');
  const shadow = current.shadow?.version === version ? undefined : current.shadow;
  await replaceCurrent(s3, location, current, { version, content, history, shadow }, version);
}

/** @throws conflict: it would be a third version beside the two that share the records */
export function assertNoCanary(location: ModelLocation, { canary }: CurrentModel): void {
  if (!canary) return;
  throw new ServingError(
    'conflict',
    `${addressText(location)}: version ${canary.version} is a canary since ${canary.since} and answers ${percentText(canary.share)} of the records; ` +
      'nothing was changed. First `model promote` makes it serve, or `model trial --end` ends it',
  );
}

/**
 * @param current the pointer to replace
 * @param change what becomes another in it
 * @param wanted the version that it is about
 * @throws conflict when it was changed meanwhile; model_unavailable
 */
export async function replaceCurrent(
  s3: S3Client,
  location: ModelLocation,
  current: CurrentModel,
  change: Partial<CurrentModel>,
  wanted: string,
): Promise<void> {
  const { etag, version, content, history, canary, shadow, ended } = { ...current, ...change };
  const document = {
    version,
    ...contentText(content),
    history: history.slice(-MAX_HISTORY),
    ...(canary && { canary: { ...canary, ...contentText(canary) } }),
    shadow,
    ended,
  };
  const text = `${JSON.stringify(document, undefined, 2)}\n`;
  // Also checked before, because not every store supports the condition.
  const now = await readCurrent(s3, location);
  const isSame = now.etag === etag;
  const written = isSame && (await put(s3, location, text, etag));
  if (written) return;
  const other = isSame ? await readCurrent(s3, location) : now;
  const what =
    other.version === current.version
      ? `a shadow or a canary began or ended in the meantime, and nothing was done for ${wanted}`
      : `version ${other.version ?? '(none)'} was made to serve in the meantime, instead of ${current.version ?? 'none'}; ${wanted} was not`;
  throw new ServingError(
    'conflict',
    `${addressText(location)}: ${what}. Look, and do it again if it is still meant`,
  );
}

/** The files that an environment needs. */
function contentText(content: VersionContent | undefined): VersionContent | undefined {
  return (
    content && {
      files: content.files.filter(({ path }) => !isGolden(path)),
      verification: content.verification,
      memoryBytes: content.memoryBytes,
    }
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

function parse(text: string): Unknown<PointerText> {
  try {
    const value: unknown = JSON.parse(text);
    return typeof value === 'object' && value !== null ? value : {};
  } catch {
    return {};
  }
}

type PointerText = VersionContent & Pick<CurrentModel, 'version' | 'history' | 'canary' | 'shadow' | 'ended'>;

function readTrials({ canary, shadow, ended }: Unknown<PointerText>) {
  return {
    canary: isCanary(canary) ? canary : undefined,
    shadow: isTrial(shadow) ? shadow : undefined,
    ended: isEnded(ended) ? ended : undefined,
  };
}

function isTrial(value: unknown): value is Shadow {
  const { version, since }: Unknown<Shadow> = Object(value);
  return isVersion(version) && typeof since === 'string' && since.length < 64;
}

function isCanary(value: unknown): value is RunningCanary {
  const { share, files }: Unknown<RunningCanary> = Object(value);
  return isTrial(value) && typeof share === 'number' && share <= MOST_SHARE && Array.isArray(files);
}

function isEnded(value: unknown): value is EndedCanary {
  const { version, end, reason, at }: Unknown<EndedCanary> = Object(value);
  const hasTexts = typeof end === 'string' && typeof reason === 'string' && typeof at === 'string';
  return isVersion(version) && hasTexts && reason.length <= MOST_REASON;
}

function isActivation(value: unknown): value is Activation {
  const { version, at }: Unknown<Activation> = Object(value);
  return isVersion(version) && typeof at === 'string' && at.length < 64;
}
