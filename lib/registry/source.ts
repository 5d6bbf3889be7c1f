/**
 * Copies a model that is named by its address in S3 into a local folder: everything below the prefix, as
 * `aws s3 cp --recursive` does, or one object. Each file is compared with the size, the ETag and the digest that S3 had
 * for it when the copy began, so a copy is never a mixture of two versions.
 */

import { createHash } from 'node:crypto';
import { join } from 'node:path';
import { asError, badConfig, badModel, modelUnavailable, ServingError } from '../contract/errors.ts';
import { readS3Address } from '../contract/names.ts';
import { elementAt } from '../contract/present.ts';
import { variables } from '../contract/variables.ts';
import { openS3 } from '../s3/client.ts';
import { factsOf, type S3Client } from '../s3/objects.ts';
import { listPages, readAll } from '../s3/pages.ts';
import { refusalAdvice } from '../s3/refusal.ts';
import { type DownloadOptions, downloadModel, isModelPath, MAX_MODEL_FILES } from './download.ts';

/** Bytes of a model that is copied from `s3://…`. Refused with `bad_model`. */
export const MAX_SOURCE_BYTES = 17_179_869_184;
/** Objects below a prefix that are looked at; hidden ones count here and are not copied. */
const MAX_LISTED = 10_000;
/** `.git/config` and `.DS_Store`, and not `..`, which is refused. */
const HIDDEN = /(?:^|\/)\.(?!\.?(?:\/|$))/;
/** A part of 8 MiB, over a slow line that eight parts share. */
const PART_MS = 300_000;

export interface CopyOptions extends Pick<DownloadOptions, 'onBytes' | 'signal'> {
  /** Default: the caller's usual account, region and endpoint. */
  readonly s3?: S3Client | undefined;
}

/**
 * @param directory gets a folder for each content, which is taken again unless something changed in S3
 * @returns the folder of the copy
 * @throws bad_config for an address that is none and for what the caller may not read; bad_model for what can be no
 * model; model_unavailable when S3 fails or the model changes meanwhile; the signal's reason
 */
export async function copyModel(address: string, directory: string, options: CopyOptions): Promise<string> {
  const place = readS3Address(address);
  if (place === undefined) throw badConfig(`expected s3://bucket/prefix, got ${JSON.stringify(address)}`);
  const s3 = options.s3 ?? openS3({ endpoint: variables['AWS_ENDPOINT_URL'] || undefined, anyRegion: true });
  const { onBytes, signal } = options;
  try {
    const { prefix, keys } = await keysAt(s3, place, signal);
    const limits = { limitMs: PART_MS, signal };
    const files = await readAll(keys, async (key) => {
      const facts = await factsOf(s3, { bucket: place.bucket, key }, limits);
      return { path: key.slice(prefix.length), key, ...facts };
    });
    const bytes = files.reduce((sum, file) => sum + file.bytes, 0);
    if (bytes > MAX_SOURCE_BYTES) throw badModel(`${bytes} bytes are over the limit of ${MAX_SOURCE_BYTES}`);
    const content = JSON.stringify([place.bucket, files]);
    const version = createHash('sha256').update(content).digest('hex').slice(0, 12);
    const pointer = {
      version,
      files: files.map(({ sha256, ...file }) => (sha256 ? { ...file, sha256 } : file)),
    };
    return await downloadModel(s3, { bucket: place.bucket, prefix }, pointer, directory, {
      ...limits,
      onBytes,
    });
  } catch (error) {
    signal?.throwIfAborted();
    throw refusal(error, address, place.bucket);
  } finally {
    if (options.s3 === undefined) s3.destroy();
  }
}

/** @returns the keys of the model's files, which all begin with the prefix */
async function keysAt(
  s3: S3Client,
  { bucket, key }: { readonly bucket: string; readonly key: string },
  signal: AbortSignal | undefined,
): Promise<{ readonly prefix: string; readonly keys: readonly string[] }> {
  const isFolder = key === '' || key.endsWith('/');
  const prefix = isFolder ? key : `${key}/`;
  const keys: string[] = [];
  let listed = 0;
  for await (const page of listPages(s3, bucket, prefix)) {
    signal?.throwIfAborted();
    // A key that ends in a slash is the folder that the console made.
    const names = page
      .map((object) => object.key.slice(prefix.length))
      .filter((name) => !/^$|\/$/.test(name));
    keys.push(...names.filter((name) => !HIDDEN.test(name)));
    if ((listed += page.length) > MAX_LISTED || keys.length > MAX_MODEL_FILES) {
      throw badModel(`more than ${MAX_MODEL_FILES} files; give the prefix of one model`);
    }
  }
  const single = isFolder ? undefined : await singleObject(s3, bucket, key);
  if (single !== undefined && keys.length > 0) {
    throw badModel(
      'there is an object of this name, and a folder; for the folder, end the address in a slash',
    );
  }
  if (single !== undefined)
    return { prefix: key.slice(0, key.lastIndexOf('/') + 1), keys: [assertName(single)] };
  if (keys.length === 0) throw badModel('there are no files; check the prefix with `aws s3 ls`');
  return { prefix, keys: assertNames(keys).map((name) => prefix + name) };
}

/** The first key with a prefix is the prefix itself, if there is such an object. */
async function singleObject(s3: S3Client, bucket: string, key: string): Promise<string | undefined> {
  for await (const [first] of listPages(s3, bucket, key)) return first?.key === key ? key : undefined;
  return undefined;
}

function assertName(key: string): string {
  assertNames([key.slice(key.lastIndexOf('/') + 1)]);
  return key;
}

/** @throws bad_model for keys that no folder can hold as files */
function assertNames(names: readonly string[]): readonly string[] {
  // Some file systems do not tell capitals from small letters.
  const folded = names.map((name) => name.toLowerCase());
  const folders = new Set(folded.flatMap((name) => foldersOf(name)));
  const seen = new Set<string>();
  for (const [i, name] of names.entries()) {
    const shown = JSON.stringify(name).replaceAll(/[^ -~]/gu, '?');
    if (!isModelPath(name) || join(name) !== name) {
      throw badModel(
        `the key ${shown} cannot be a file: expected letters, digits, "_", ".", "-" and spaces, at most 256 characters`,
      );
    }
    const own = elementAt(folded, i, 'folded');
    if (seen.has(own) || folders.has(own))
      throw badModel(`the key ${shown} is there twice, or is a folder as well`);
    seen.add(own);
  }
  return names;
}

function foldersOf(name: string): string[] {
  const parts = name.split('/').slice(0, -1);
  return parts.map((_, i) => parts.slice(0, i + 1).join('/'));
}

function refusal(error: unknown, address: string, bucket: string): ServingError {
  const namedBy = address;
  const advice = refusalAdvice(error, {
    bucket,
    text: address,
    namedBy,
    needs: 's3:GetObject and s3:ListBucket',
  });
  const { code, message } = ServingError.from(error);
  const endpoint = variables['AWS_ENDPOINT_URL'] || undefined;
  const isAway = endpoint !== undefined && /ECONNREFUSED|ENOTFOUND/.test(asError(error).message);
  const why =
    advice ??
    (isAway ? `nothing answers at AWS_ENDPOINT_URL, ${endpoint}; unset it for Amazon's S3` : message);
  const text = `${address}: ${why.replaceAll(/\s+/g, ' ').trim()}`;
  if (advice !== undefined && !/meanwhile/.test(advice)) return badConfig(text, { cause: error });
  return code === 'bad_model' ? badModel(text, { cause: error }) : modelUnavailable(text, { cause: error });
}
