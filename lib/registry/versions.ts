/**
 * Lists a model's versions, rolls back to one, and removes old ones. A version is complete if it has a manifest,
 * which is written after its last file and deleted before its first. The serving version is never deleted, even if a
 * rollback selects it at that moment.
 */
import { asError, badConfig, modelUnavailable, ServingError } from '../contract/errors.ts';
import { isCount } from '../contract/present.ts';
import { readVerification, type Verification } from '../contract/verification.ts';
import { getText, type ObjectAddress, putText, type S3Client, sizeOf, statusOf } from '../s3/objects.ts';
import { listPages, readAll, removeObjects } from '../s3/pages.ts';
import {
  addressText,
  isModelPath,
  isVersion,
  type ModelLocation,
  type ModelPointer,
  unreachable,
  versionKey,
} from './download.ts';
import { isGolden } from './golden.ts';
import { type Activation, type CurrentModel, promote, readCurrent, type VersionContent } from './pointer.ts';
import { endCanary } from './trial.ts';

/** `manifests/<version>.json`. */
interface Manifest extends VersionContent {
  readonly version: string;
  /** ISO 8601. */
  readonly uploadedAt: string;
  /** The source of the model; for an ONNX directory only the format. Undefined if it is not known. */
  readonly source?: ModelOrigin;
}

export interface ModelOrigin {
  /** `onnx`, `caffe`, `tf_saved_model`, … */
  readonly format: string;
  readonly files?: VersionContent['files'];
}

export interface ModelVersion {
  readonly version: string;
  readonly bytes: number;
  readonly files: number;
  /** ISO 8601. */
  readonly uploadedAt: string;
  /** Undefined without a manifest: incomplete, or being uploaded. */
  readonly format: string | undefined;
  /** Undefined where none was made: records run one by one. */
  readonly verification?: Verification;
  readonly serves: boolean;
  /** The target of a rollback without a name. */
  readonly before: boolean;
  /** How it is tried beside the version that serves. */
  readonly trial?: 'canary' | 'shadow' | undefined;
}

function manifestKey({ prefix }: ModelLocation, version: string): string {
  return `${prefix}manifests/${version}.json`;
}

export async function writeManifest(s3: S3Client, location: ModelLocation, manifest: Manifest) {
  const address = { bucket: location.bucket, key: manifestKey(location, manifest.version) };
  await putText(s3, address, `${JSON.stringify(manifest, undefined, 2)}\n`);
}

/** Undefined when there is no valid one. */
export async function readManifest(
  s3: S3Client,
  location: ModelLocation,
  version: string,
): Promise<Manifest | undefined> {
  const text = await getText(s3, { bucket: location.bucket, key: manifestKey(location, version) });
  try {
    const manifest: Manifest | null = JSON.parse(text ?? 'null');
    if (manifest?.version !== version || !Array.isArray(manifest.files)) return undefined;
    const isWhole = manifest.files.every(
      ({ path, bytes, sha256 }) =>
        isModelPath(path) && Number.isSafeInteger(bytes) && /^[0-9a-f]{64}$/.test(sha256),
    );
    if (!isWhole || manifest.files.length === 0) return undefined;
    const { verification, memoryBytes } = manifest;
    return {
      ...manifest,
      verification: readVerification(verification),
      memoryBytes: isCount(memoryBytes) ? memoryBytes : undefined,
    };
  } catch {
    return undefined;
  }
}

/** The newest first. @throws model_unavailable */
export async function listVersions(s3: S3Client, location: ModelLocation): Promise<ModelVersion[]> {
  try {
    const current = await readCurrent(s3, location);
    const found = await foldersOf(s3, location);
    const names = [...found.keys()];
    const manifests = await readAll(names, (name) => readManifest(s3, location, name));
    const before = versionBefore(current);
    const versions = [...found].map(([version, objects], i) => ({
      version,
      bytes: objects.bytes,
      files: objects.keys.length,
      uploadedAt: manifests[i]?.uploadedAt ?? new Date(objects.modifiedAt).toISOString(),
      format: manifests[i]?.source?.format,
      ...(manifests[i]?.verification && { verification: manifests[i].verification }),
      serves: version === current.version,
      before: version === before,
      ...trialOf(version, current),
    }));
    return versions.sort((a, b) => b.uploadedAt.localeCompare(a.uploadedAt));
  } catch (error) {
    throw unreachable(location, error);
  }
}

interface VersionFolder {
  readonly keys: string[];
  bytes: number;
  modifiedAt: number;
}

async function foldersOf(s3: S3Client, { bucket, prefix }: ModelLocation) {
  const root = `${prefix}versions/`;
  const folders = new Map<string, VersionFolder>();
  for await (const page of listPages(s3, bucket, root)) {
    for (const { key, bytes, modifiedAt } of page) {
      const version = key.slice(root.length).split('/')[0];
      if (!isVersion(version)) continue;
      const folder = folders.get(version) ?? { keys: [], bytes: 0, modifiedAt: 0 };
      folder.keys.push(key);
      folder.bytes += bytes;
      folder.modifiedAt = Math.max(folder.modifiedAt, modifiedAt);
      folders.set(version, folder);
    }
  }
  return folders;
}

function trialOf(version: string, { canary, shadow }: CurrentModel): Pick<ModelVersion, 'trial'> | undefined {
  if (version === canary?.version) return { trial: 'canary' };
  return version === shadow?.version ? { trial: 'shadow' } : undefined;
}

function versionBefore({ version, history }: CurrentModel): string | undefined {
  return history.findLast((one) => one.version !== version)?.version;
}

export interface RollBackOptions {
  /** Called with a version that has golden requests, before it serves. Its errors are thrown. */
  readonly check?: (version: ModelPointer) => Promise<void>;
  /** Wall clock in ms. Default Date.now. */
  readonly now?: () => number;
}

interface RolledBack {
  readonly version: string;
  /** The version that served until now, or the canary that took a share. */
  readonly from: string | undefined;
}

/**
 * Makes an earlier version serve: the previous one, or `version`, after checking that all its files exist. While a canary runs,
 * it ends, and the version that serves answers all records again.
 * @throws not_found when there is no such version, model_unavailable when a file of it is missing or has another
 * size, conflict when another version was made to serve meanwhile
 */
export async function rollBack(
  s3: S3Client,
  location: ModelLocation,
  version: string | undefined,
  { check, now = Date.now }: RollBackOptions = {},
): Promise<RolledBack> {
  const current = await readCurrent(s3, location);
  if (current.canary && current.version && (version ?? current.version) === current.version) {
    const end = { isPromoted: false, reason: 'by hand', at: new Date(now()).toISOString() };
    const canary = await endCanary(s3, location, current, end);
    return { version: current.version, from: canary.version };
  }
  const wanted = version ?? versionBefore(current);
  const where = addressText(location);
  if (wanted === undefined) throw new ServingError('not_found', `${where}: no version served before`);
  if (!isVersion(wanted)) {
    throw badConfig(`${JSON.stringify(wanted)}: no version is called like this`);
  }
  if (wanted === current.version) return { version: wanted, from: current.version };
  const manifest = await readManifest(s3, location, wanted).catch((error: unknown) => {
    throw unreachable(location, error);
  });
  if (!manifest) {
    const others = (await listVersions(s3, location)).filter(({ format, serves }) => format && !serves);
    const names = others.map((one) => one.version).join(', ') || 'none';
    throw new ServingError(
      'not_found',
      `${where}: version ${wanted} is not there, or has no manifest; to go back to: ${names}`,
    );
  }
  await assertFiles(s3, location, manifest);
  if (manifest.files.some(({ path }) => isGolden(path))) await check?.(pointerOf(manifest, location));
  await promote(s3, location, current, manifest, historyBackTo(current.history, wanted, now));
  return { version: wanted, from: current.version };
}

/** The version that a manifest describes, as something that can be downloaded. */
export function pointerOf(
  { version, files, verification }: Pick<Manifest, 'version' | 'files' | 'verification'>,
  location: ModelLocation,
): ModelPointer {
  const keyed = files.map((file) => ({ ...file, key: versionKey(location, version, file.path) }));
  return { version, files: keyed, verification };
}

/** The history up to its last activation; a version that never served is added. */
function historyBackTo(
  history: readonly Activation[],
  version: string,
  now: () => number,
): readonly Activation[] {
  const place = history.findLastIndex((one) => one.version === version);
  if (place >= 0) return history.slice(0, place + 1);
  return [...history, { version, at: new Date(now()).toISOString() }];
}

/** The size of a version's file; undefined when it does not exist. @throws model_unavailable */
export function storedSize(s3: S3Client, address: ObjectAddress): Promise<number | undefined> {
  return sizeOf(s3, address).catch((error: unknown) => {
    const status = statusOf(error);
    // The answer to HEAD has no body that would say why.
    const why = status === 0 ? asError(error).message : `S3 answered HEAD with ${status}`;
    throw modelUnavailable(`s3://${address.bucket}/${address.key}: ${why}`, { cause: error });
  });
}

async function assertFiles(s3: S3Client, location: ModelLocation, { version, files }: Manifest) {
  const { bucket } = location;
  await readAll(files, async ({ path, bytes }) => {
    const found = await storedSize(s3, { bucket, key: versionKey(location, version, path) });
    if (found === bytes) return;
    const got = found === undefined ? 'nothing' : `${found}`;
    throw modelUnavailable(
      `${addressText(location)}: ${path} of version ${version}: expected ${bytes} bytes, found ${got}; ` +
        'nothing was changed',
    );
  });
}

/** The versions that a prune to `keep` deletes: all but the newest ones and those that are in use. */
export function surplus(versions: readonly ModelVersion[], keep: number): ModelVersion[] {
  const others = versions.filter(({ serves, trial }) => !serves && !trial);
  return others.slice(Math.max(0, keep - (versions.length - others.length)));
}

/**
 * @returns false when it serves by now, or is tried, and nothing is deleted
 * @throws model_unavailable
 */
export async function removeVersion(
  s3: S3Client,
  location: ModelLocation,
  version: string,
): Promise<boolean> {
  const { bucket } = location;
  try {
    const manifest = await readManifest(s3, location, version);
    await removeObjects(s3, bucket, [manifestKey(location, version)]);
    // No rollback can select it from now on, but one may just have.
    const current = await readCurrent(s3, location);
    if (current.version === version || trialOf(version, current)) {
      if (manifest) await writeManifest(s3, location, manifest);
      return false;
    }
    for await (const page of listPages(s3, bucket, versionKey(location, version, ''))) {
      await removeObjects(
        s3,
        bucket,
        page.map(({ key }) => key),
      );
    }
    return true;
  } catch (error) {
    throw unreachable(location, error);
  }
}
