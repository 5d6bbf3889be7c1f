/** `job run`: uploads files of this machine, and asks the functions for a job. */
import { createHash, randomBytes } from 'node:crypto';
import { createReadStream } from 'node:fs';
import { readdir, stat } from 'node:fs/promises';
import { basename, join, relative, sep } from 'node:path';
import { pipeline } from 'node:stream/promises';
import { asError, badRequest } from '../../lib/contract/errors.ts';
import { fileJobsPrefix, readS3Address } from '../../lib/contract/names.ts';
import { errorLimit, type Format, readRequest } from '../../lib/jobs/request.ts';
import { uploadFile } from '../../lib/s3/upload.ts';
import type { JobPlace } from '../../local/console/job-place.ts';
import { unexpected } from '../command.ts';
import { EXIT, type Output } from '../output.ts';
import { showProgress } from '../progress.ts';
import { watchJob } from './watch.ts';

export interface RunOptions {
  /** A file, a folder, or an address in S3. */
  readonly target: string;
  readonly out: string | undefined;
  readonly format: Format | undefined;
  readonly maxErrors: string | undefined;
  readonly dryRun: boolean;
  readonly detach: boolean;
}

/** Files of one job, as the functions take them. */
const MOST_FILES = 100_000;

export async function runJob(place: JobPlace, options: RunOptions, output: Output): Promise<number> {
  const { target, out, format, maxErrors, dryRun, detach } = options;
  const id = `${new Date()
    .toISOString()
    .slice(0, 19)
    .replaceAll(/\D/g, '')
    .replace(/^(.{8})/, '$1-')}-${randomBytes(3).toString('hex')}`;
  const results = outOf(out) ?? `s3://${place.bucket}/${fileJobsPrefix(place.job)}out/${id}/`;
  if (maxErrors !== undefined) errorLimit(maxErrors, 0);
  const input = readS3Address(target) ? target : await upload(place, id, target, output);
  const request = { input, output: results, format, maxErrors, dryRun };
  readRequest(JSON.stringify(request));
  await place.ask(id, request);
  if (!detach) output.note(`job ${id} has begun; to stop watching ends nothing`);
  if (!detach) return watchJob(place, id, output);
  output.answer({ id, ...request }, id);
  return EXIT.ok;
}

function outOf(out: string | undefined): string | undefined {
  if (out === undefined) return undefined;
  if (!readS3Address(out)) throw unexpected('out', 's3://<bucket>/<prefix>/', out);
  return out.endsWith('/') ? out : `${out}/`;
}

/** @returns the address of the files in S3. @throws bad_request */
async function upload(place: JobPlace, id: string, target: string, output: Output): Promise<string> {
  const found = await stat(target).catch((error: unknown) => {
    throw badRequest(`${target} cannot be read: ${asError(error).message}`);
  });
  const folder = found.isDirectory() ? target : undefined;
  const paths = folder === undefined ? [target] : await filesBelow(folder);
  if (paths.length === 0) throw badRequest(`there is no file in ${target}`);
  if (paths.length > MOST_FILES)
    throw badRequest(`${target} has more than ${MOST_FILES} files: make several jobs`);
  const sizes = await Promise.all(paths.map(async (path) => (await stat(path)).size));
  const total = sizes.reduce((sum, size) => sum + size, 0) / 1e6;
  const { input } = place.keys(id);
  const progress = showProgress(output.json);
  let done = 0;
  try {
    for (const [i, path] of paths.entries()) {
      const name = folder === undefined ? basename(path) : relative(folder, path).split(sep).join('/');
      const file = { path, bytes: sizes[i] ?? 0, sha256: await digestOf(path) };
      const address = { bucket: place.bucket, key: `${input}${name}` };
      const onBytes = (bytes: number) => {
        done += bytes / 1e6;
        progress.update({ label: 'uploaded', done, total, unit: 'MB' });
      };
      await uploadFile(place.s3, address, file, { onBytes });
    }
  } finally {
    progress.end();
  }
  return folder === undefined
    ? `s3://${place.bucket}/${input}${basename(target)}`
    : `s3://${place.bucket}/${input}`;
}

/** As the functions list them: hidden files, and those that others write beside theirs, are none of it. */
async function filesBelow(folder: string): Promise<string[]> {
  const entries = await readdir(folder, { withFileTypes: true });
  const shown = entries
    .filter(({ name }) => !/^[._]/.test(name))
    .toSorted((a, b) => (a.name < b.name ? -1 : 1));
  const found = await Promise.all(
    shown.map(async (entry) => {
      const path = join(folder, entry.name);
      if (entry.isDirectory()) return filesBelow(path);
      return entry.isFile() ? [path] : [];
    }),
  );
  return found.flat();
}

async function digestOf(path: string): Promise<string> {
  const hash = createHash('sha256');
  await pipeline(createReadStream(path), hash);
  return hash.digest('hex');
}
