/**
 * Copies a model that is named by its address on the hub of Hugging Face into a local folder, one for each commit. A branch
 * is resolved to its commit first, so that what is imported has a name that never changes.
 */
import { createHash } from 'node:crypto';
import { rename, rm, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { type HubAddress, readHubAddress } from '../../lib/config/model-path.ts';
import { badConfig, badModel, modelUnavailable, ServingError } from '../../lib/contract/errors.ts';
import { present } from '../../lib/contract/present.ts';
import { variables } from '../../lib/contract/variables.ts';
import { isModelPath, MAX_MODEL_FILES } from '../../lib/registry/download.ts';
import { inPartial, makeFolder } from '../../lib/registry/download-folder.ts';
import { MAX_SOURCE_BYTES } from '../../lib/registry/source.ts';
import {
  type HubOrigin,
  type ListedFile,
  ORIGIN_FILE,
  readFacts,
  readOrigin,
  type StoredOrigin,
} from '../../onnx-import/index.ts';
import { type Chosen, chooseFiles, folderOf } from './choose.ts';
import { HubClient, type HubClientOptions } from './client.ts';
import { downloadFile, hasDigest } from './download.ts';
import { commitOf, listFiles } from './list.ts';

export interface HubCopyOptions extends HubClientOptions {
  readonly onBytes?: ((done: number, total: number) => void) | undefined;
  /** Called once the commit is known, before anything is downloaded. */
  readonly onCommit?: ((origin: HubOrigin) => void) | undefined;
  /** Replaced in tests. */
  readonly pauseMs?: number | undefined;
  readonly limitMs?: number | undefined;
}

/** Everything that one copy may take; what came stays, and the next attempt continues it. */
const LIMIT_MS = 4 * 3_600_000;

/**
 * @param directory gets a folder for each commit of each repository, which is used again while its digests hold
 * @returns the folder of the copy
 * @throws bad_config for an address that is none and for what the token may not read; bad_model for what can be no model;
 * model_unavailable when the hub fails; the signal's reason
 */
export async function copyFromHub(
  text: string,
  directory: string,
  options: HubCopyOptions = {},
): Promise<string> {
  const address = readHubAddress(text);
  if (address === undefined)
    throw badConfig(`expected hf://org/name, or hf://org/name@revision, got ${JSON.stringify(text)}`);
  const limit = AbortSignal.timeout(options.limitMs ?? LIMIT_MS);
  const signal = options.signal ? AbortSignal.any([options.signal, limit]) : limit;
  try {
    return await copyAt(text, address, directory, { ...options, signal });
  } catch (error) {
    options.signal?.throwIfAborted();
    const late = 'the download took too long; what came is kept, and the next attempt continues it';
    if (limit.aborted) throw modelUnavailable(`${text}: ${late}`, { cause: error });
    const { code, message } = ServingError.from(error);
    if (code === 'internal' || message.startsWith(text)) throw error;
    throw new ServingError(code, `${text}: ${message}`, { cause: error });
  }
}

async function copyAt(text: string, address: HubAddress, directory: string, options: HubCopyOptions) {
  const { repo, file } = address;
  const client = new HubClient({
    endpoint: options.endpoint ?? (variables['HF_ENDPOINT'] || undefined),
    token: options.token ?? variables['HF_TOKEN'],
    signal: options.signal,
    stallMs: options.stallMs,
  });
  const commit = await commitOf(client, address);
  options.onCommit?.({ repo, commit });
  const part = file === undefined ? '' : `-${createHash('sha256').update(file).digest('hex').slice(0, 8)}`;
  const folder = join(directory, repo.replace('/', '--'), `${commit}${part}`);
  if (await isWhole(folder)) return folder;
  await rm(folder, { recursive: true, force: true });
  const listed = await listFiles(client, repo, commit);
  const chosen = chooseFiles(
    listed.map(({ path }) => path),
    { address: text, file, repo },
  );
  await makeFolder(join(folder, '..'));
  return inPartial(folder, async (partial) => {
    // Until it is whole: another attempt continues what is there.
    partial.keeps = true;
    const files = await downloadAll(client, { repo, commit, listed, chosen }, partial.folder, options);
    const origin: StoredOrigin = { repo, commit, files };
    await writeFile(join(partial.folder, ORIGIN_FILE), JSON.stringify(origin));
    partial.end();
    await rename(partial.folder, folder).catch(async (error: unknown) => {
      // Another process was faster.
      if (!(await isWhole(folder))) throw error;
    });
    partial.keeps = false;
    return folder;
  });
}

async function isWhole(folder: string): Promise<boolean> {
  const origin = readOrigin(folder);
  if (origin === undefined) return false;
  for (const file of origin.files) if (!(await hasDigest(join(folder, file.path), file))) return false;
  return true;
}

interface Download {
  readonly repo: string;
  readonly commit: string;
  readonly listed: readonly ListedFile[];
  readonly chosen: Chosen;
}

/** @returns the files with their paths in the folder, where the model lies at the root, as an import expects it */
async function downloadAll(
  client: HubClient,
  { repo, commit, listed, chosen }: Download,
  folder: string,
  options: HubCopyOptions,
): Promise<ListedFile[]> {
  const inner = folderOf(chosen.model);
  const byPath = new Map(listed.map((file) => [file.path, file]));
  const done: ListedFile[] = [];
  let doneBytes = 0;
  const get = async (paths: readonly string[]) => {
    const files = paths.map((path) => present(byPath.get(path), path));
    const total = doneBytes + files.reduce((sum, { bytes }) => sum + bytes, 0);
    if (total > MAX_SOURCE_BYTES) throw badModel(`${total} bytes are over the limit of ${MAX_SOURCE_BYTES}`);
    if (done.length + files.length > MAX_MODEL_FILES)
      throw badModel(`${done.length + files.length} files are over the limit of ${MAX_MODEL_FILES}`);
    for (const file of files) {
      const name = file.path.startsWith(inner) ? file.path.slice(inner.length) : file.path;
      if (!isModelPath(name))
        throw badModel(
          `${JSON.stringify(file.path)} cannot be a file: expected letters, digits, "_", ".", "-" and spaces`,
        );
      const path = `/${repo}/resolve/${commit}/${file.path.split('/').map(encodeURIComponent).join('/')}`;
      const onBytes = (bytes: number) => options.onBytes?.(doneBytes + bytes, total);
      await downloadFile(client, path, file, join(folder, name), { ...options, onBytes });
      doneBytes += file.bytes;
      options.onBytes?.(doneBytes, total);
      done.push({ ...file, path: name });
    }
  };
  await get(chosen.paths);
  await get(await externalFiles(folder, chosen, byPath));
  return done;
}

/** The weights that an ONNX file names: which these are is known once it is here. */
async function externalFiles(
  folder: string,
  { model, paths }: Chosen,
  byPath: ReadonlyMap<string, ListedFile>,
): Promise<readonly string[]> {
  if (!/\.onnx$/i.test(model)) return [];
  const inner = folderOf(model);
  const { externalFiles: names } = await readFacts(join(folder, model.slice(inner.length)));
  const wanted = names.map((name) => `${inner}${name}`).filter((path) => !paths.includes(path));
  const missing = wanted.find((path) => !byPath.has(path));
  if (missing !== undefined)
    throw badModel(`${model} keeps its weights in ${missing}, which the repository lacks`);
  return wanted;
}
