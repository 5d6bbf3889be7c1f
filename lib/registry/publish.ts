/**
 * Uploads a model directory as an immutable version, then makes it serve. The pointer is written last, so a reader
 * sees the old version or the new one. An upload takes minutes; if another version was made to serve meanwhile, it is
 * not silently replaced.
 */
import { createHash } from 'node:crypto';
import { readdir, stat } from 'node:fs/promises';
import { join, relative, sep } from 'node:path';
import { modelUnavailable, type ServingError } from '../contract/errors.ts';
import type { Verification } from '../contract/verification.ts';
import type { S3Client } from '../s3/objects.ts';
import { uploadFile } from '../s3/upload.ts';
import { digestFile } from './digest.ts';
import {
  isModelPath,
  MAX_MODEL_FILES,
  type ModelLocation,
  type ModelPointer,
  unreachable,
  versionKey,
} from './download.ts';
import { type KeptGolden, withKeptGolden } from './kept-golden.ts';
import { assertFits, type NamedPlace } from './memory.ts';
import { findModelFile } from './onnx-file.ts';
import {
  assertNoCanary,
  type CurrentModel,
  promote,
  type RunningCanary,
  readCurrent,
  replaceCurrent,
  type VersionContent,
  type VersionFile,
} from './pointer.ts';
import { assertShare, startCanary, startShadow } from './trial.ts';
import { type ModelOrigin, readManifest, storedSize, writeManifest } from './versions.ts';
import { withSplitWeights } from './weights.ts';

/** A version on trial: it answers captured requests, or a share of the records (from 0 to 0.5). */
export type Trial = { readonly kind: 'shadow' } | { readonly kind: 'canary'; readonly share: number };

export interface PublishOptions {
  /** False: upload only. Default true. */
  readonly activate?: boolean | undefined;
  /** How the version is tried instead of serving. Default: it serves. */
  readonly trial?: Trial | undefined;
  /** True: a canary of another version ends, because the folder is what the service was started with. Default: a conflict. */
  readonly endsCanary?: boolean | undefined;
  /** The source of the model. Default: an ONNX directory, or a worker's. */
  readonly source?: ModelOrigin | undefined;
  /** True: a worker's folder, which may hold any files; `verify` is not called. Default false. */
  readonly anyFiles?: boolean | undefined;
  /** True: the golden requests of the serving version are neither asked nor kept. Default false. */
  readonly dropGolden?: boolean | undefined;
  /** Called with the bytes stored in S3 so far and the total. */
  readonly onBytes?: ((done: number, total: number) => void) | undefined;
  readonly signal?: AbortSignal | undefined;
  /**
   * Called with the model's file, what is stored with this version, and the golden requests that it keeps from the serving
   * version, before anything is uploaded; returns what to store. Its errors are thrown. Without it, what is stored stays.
   */
  readonly verify?:
    | ((
        file: string,
        stored: Verification | undefined,
        kept: KeptGolden | undefined,
      ) => Promise<Verification>)
    | undefined;
  /** The memory that the open model takes, as it was measured. Default: what is stored with the version. */
  readonly memoryBytes?: number | undefined;
  /** A further model of a job, which shares memory with others. Default: the job's own. */
  readonly named?: NamedPlace | undefined;
  /** Wall clock in ms. Default Date.now. */
  readonly now?: () => number;
}

export interface Published extends ModelPointer {
  /** The number of files that existed already. */
  readonly skipped: number;
  /** The version that served before; undefined when none did. */
  readonly before: string | undefined;
  /** Golden requests that it took over from the version that served before. */
  readonly keptGolden: number;
  /** False when it was only uploaded. */
  readonly serves: boolean;
}

/**
 * Uploads `directory` (one *.onnx and the other files) and makes it the serving version; of a large model the weights become a
 * file of their own. The version is the start of the SHA-256 over names and contents, so the same files are the same version.
 * @throws model_unavailable when the directory holds no model or two, a link, or a file that cannot be named in S3,
 * and when S3 cannot be reached; conflict when another version was made to serve meanwhile; the signal's reason;
 * errors of `verify`
 */
export async function publishModel(
  s3: S3Client,
  location: ModelLocation,
  directory: string,
  options: PublishOptions = {},
): Promise<Published> {
  const publish = (folder: string) => publishFolder(s3, location, folder, options);
  if (options.anyFiles) return publish(directory);
  const model = await findModelFile(directory);
  return withSplitWeights(model, await modelFiles(directory), publish);
}

async function publishFolder(
  s3: S3Client,
  location: ModelLocation,
  directory: string,
  options: PublishOptions,
): Promise<Published> {
  const { anyFiles = false, dropGolden = false } = options;
  const model = anyFiles ? undefined : await findModelFile(directory);
  const paths = await modelFiles(directory);
  const files = await Promise.all(
    paths.map(async (path) => {
      const file = join(directory, path);
      return { path, file, bytes: (await stat(file)).size, sha256: await digestFile(file, 'sha256') };
    }),
  );
  try {
    // Read before the upload, so that a version that starts to serve during it is not overridden.
    const current = await readCurrent(s3, location);
    const guarded = anyFiles || dropGolden ? undefined : current.version;
    return await withKeptGolden(s3, location, guarded, paths, (kept) => {
      const more = kept?.files.map((file) => ({ ...file, file: join(kept.directory, file.path) })) ?? [];
      return publishFiles(s3, location, { model, current, kept, files: [...files, ...more] }, options);
    });
  } catch (error) {
    options.signal?.throwIfAborted();
    throw unreachable(location, error);
  }
}

/** A file of a version, and where it lies on this machine. */
type LocalFile = VersionFile & { readonly file: string };

interface Upload {
  /** Undefined for a worker's folder. */
  readonly model: string | undefined;
  readonly current: CurrentModel;
  readonly kept: KeptGolden | undefined;
  readonly files: readonly LocalFile[];
}

async function publishFiles(
  s3: S3Client,
  location: ModelLocation,
  { model, current, kept, files: local }: Upload,
  options: PublishOptions,
): Promise<Published> {
  const { activate = true, anyFiles = false, now = Date.now } = options;
  const { source = { format: anyFiles ? 'worker' : 'onnx' } } = options;
  const files = local
    .map(({ path, bytes, sha256 }) => ({ path, bytes, sha256 }))
    .sort((a, b) => (a.path < b.path ? -1 : 1));
  const version = createHash('sha256').update(JSON.stringify(files)).digest('hex').slice(0, 12);
  assertFree(location, current, version, options);
  const known = await readManifest(s3, location, version);
  const memoryBytes = options.memoryBytes ?? known?.memoryBytes;
  const beside = options.trial?.kind === 'canary' ? current.content : undefined;
  if (options.named) assertFits(options.named, { files, memoryBytes }, beside);
  const verified = model === undefined ? undefined : await options.verify?.(model, known?.verification, kept);
  const verification = verified ?? known?.verification;
  const skipped = await uploadFiles(s3, location, version, local, options);
  const at = new Date(now()).toISOString();
  const stored = await readManifest(s3, location, version);
  if (!stored || verification !== known?.verification || memoryBytes !== known?.memoryBytes) {
    const made = { version, files, uploadedAt: at, source };
    await writeManifest(s3, location, { ...made, ...stored, verification, memoryBytes });
  }
  const serves = activate && !options.trial;
  const uploaded = { version, files, verification, memoryBytes };
  if (serves) await promoteUpload(s3, location, current, uploaded, { at, endsCanary: options.endsCanary });
  if (options.trial) await tryUpload(s3, location, current, { ...uploaded, since: at }, options.trial);
  return {
    version,
    files: files.map((file) => ({ ...file, key: versionKey(location, version, file.path) })),
    verification,
    skipped,
    before: current.version,
    keptGolden: kept?.files.length ?? 0,
    serves: serves || current.version === version,
  };
}

/** @returns the number of files that existed already */
async function uploadFiles(
  s3: S3Client,
  location: ModelLocation,
  version: string,
  files: readonly LocalFile[],
  { onBytes, signal }: PublishOptions,
): Promise<number> {
  const total = files.reduce((sum, { bytes }) => sum + bytes, 0);
  let [done, skipped] = [0, 0];
  const count = (bytes: number) => {
    done += bytes;
    onBytes?.(done, total);
  };
  for (const { path, file, bytes, sha256 } of files) {
    signal?.throwIfAborted();
    const address = { bucket: location.bucket, key: versionKey(location, version, path) };
    // A version's folder is never rewritten, so an object with the right size has the right content.
    if ((await storedSize(s3, address)) === bytes) {
      skipped++;
      count(bytes);
      continue;
    }
    await uploadFile(s3, address, { path: file, bytes, sha256 }, { signal, onBytes: count });
  }
  return skipped;
}

/** Checked before an upload that takes minutes. @throws bad_config, conflict */
function assertFree(
  location: ModelLocation,
  current: CurrentModel,
  version: string,
  { trial, activate = true, endsCanary = false }: PublishOptions,
): void {
  if (trial?.kind === 'canary') assertShare(trial.share);
  if (trial || (activate && !endsCanary && current.version !== version)) assertNoCanary(location, current);
}

function tryUpload(
  s3: S3Client,
  location: ModelLocation,
  current: CurrentModel,
  version: Omit<RunningCanary, 'share'>,
  trial: Trial,
): Promise<void> {
  if (trial.kind === 'shadow')
    return startShadow(s3, location, current, { version: version.version, since: version.since });
  return startCanary(s3, location, current, { ...version, share: trial.share });
}

async function promoteUpload(
  s3: S3Client,
  location: ModelLocation,
  current: CurrentModel,
  { version, ...content }: VersionContent & { readonly version: string },
  { at, endsCanary }: { readonly at: string; readonly endsCanary: boolean | undefined },
): Promise<void> {
  const { canary } = current;
  if (current.version === version) {
    // Written again, though nothing changes: by hand somebody may have spoiled the list of its files.
    return replaceCurrent(s3, location, current, { content }, version);
  }
  if (canary && endsCanary) {
    const reason = 'the service was started with another model';
    const ended = { version: canary.version, end: 'rolled back', reason, at } as const;
    const change = { version, content, history: [...current.history, { version, at }], canary: undefined };
    return replaceCurrent(s3, location, current, { ...change, ended }, version);
  }
  return promote(s3, location, current, content, [...current.history, { version, at }]);
}

/** An import report has the time of the import in it: the same model would be another version each time. */
const IMPORT_REPORT = /^import-report\.(json|md)$/;

/**
 * The paths of the files, except hidden ones.
 * @throws model_unavailable for a link, which may lead out of the directory, and for names that a pointer cannot hold
 */
export async function modelFiles(directory: string): Promise<string[]> {
  const entries = await readdir(directory, { withFileTypes: true, recursive: true });
  const paths: string[] = [];
  for (const entry of entries) {
    const path = relative(directory, join(entry.parentPath, entry.name)).split(sep).join('/');
    // Files below `.git` do not start with a dot themselves.
    if (/(?:^|\/)\./.test(path) || IMPORT_REPORT.test(entry.name)) continue;
    if (entry.isSymbolicLink()) {
      throw refused(`${shown(path)}: expected a file, found a symbolic link; put a copy in its place`);
    }
    if (entry.isDirectory()) continue;
    if (!entry.isFile()) throw refused(`${shown(path)}: expected a file`);
    if (!isModelPath(path)) {
      throw refused(
        `${shown(path)}: expected a path of letters, digits, "_", ".", "-" and spaces, at most 256 characters`,
      );
    }
    paths.push(path);
  }
  if (paths.length === 0) throw refused('no files');
  if (paths.length > MAX_MODEL_FILES) {
    throw refused(`${paths.length} files, over the limit of ${MAX_MODEL_FILES}`);
  }
  return paths.sort();

  function refused(what: string): ServingError {
    return modelUnavailable(`model directory ${directory}: ${what}`);
  }
}

/** A file name may contain control sequences of a terminal. */
function shown(path: string): string {
  return path.replaceAll(/[^ -~]/gu, '?');
}
