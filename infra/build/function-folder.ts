/**
 * The folder of a function before it is zipped: its contents, and onnxruntime's binaries. onnxruntime-node unpacks to
 * 294 MB, over Lambda's limit of 250, so only the files named below are included (46 MB).
 */

import { chmod, copyFile, mkdir, rm, utimes } from 'node:fs/promises';
import { createRequire } from 'node:module';
import { dirname, join } from 'node:path';
import { present } from '../../lib/contract/present.ts';

/** The functions that Lambda runs; serverless.yml deploys `predictions` twice. */
export const FUNCTIONS = [
  'batch',
  'dead-letter',
  'jobs',
  'notifier',
  'predict',
  'predictions',
  'status',
  'throttle',
  'trials',
] as const;

export type FunctionName = (typeof FUNCTIONS)[number];
export const RUN_WORKERS: readonly FunctionName[] = ['batch', 'jobs', 'predict'];
export type Processor = 'x64' | 'arm64';

export interface FunctionFolder {
  readonly name: FunctionName;
  /** Absolute. */
  readonly folder: string;
  readonly contents: FolderContents;
}

export interface FolderContents {
  /** The bytes that each package contributes, by file of the bundle (relative to the folder). */
  readonly parts: Readonly<Record<string, Readonly<Record<string, number>>>>;
  /** True if the bundle loads onnxruntime, whose binaries are then included. */
  readonly usesRuntime: boolean;
}

/** The store of a deployment's results. */
export type ResultStore = 'redis' | 'dynamodb';

export interface FunctionsRequest {
  /** The folder that this code was installed to, absolute. */
  readonly root: string;
  readonly processor: Processor;
  /** Relative to root. Default "dist". */
  readonly outFolder?: string;
  /** Each has bundles of its own, which lack the client of the other. Default "redis". */
  readonly results?: ResultStore;
  /** The functions that serverless.yml deploys; others get no folder. Default: all. */
  readonly functions?: ServiceFunctions;
}

/** Functions of serverless.yml by name, those of the user too. One with an image has no handler. */
export type ServiceFunctions = Readonly<Record<string, { readonly handler?: string | null }>>;

const HANDLER = /^dist\/([^/]+)\/index\.handler$/;

/** A function with an image has the bundle of its name. @returns undefined for a handler of the user */
export function bundleOf(name: string, handler: string | null | undefined): string | undefined {
  return handler ? HANDLER.exec(handler)?.[1] : name;
}

export const BINDING = 'onnxruntime_binding.node';
export const RUNTIME = 'onnxruntime-node';
/** The binding looks for its library in its own folder. */
const BINARIES = [BINDING, 'libonnxruntime.so.1'];
const FIXED_TIME = new Date('2000-01-01T00:00:00Z');

/** Relative to a function's folder, as in the package. */
export function runtimeFolder(processor: Processor): string {
  return `node_modules/${RUNTIME}/bin/napi-v6/linux/${processor}`;
}

/**
 * Makes the folder of each function that is deployed, and removes what a former build left of the others.
 * @param make is given the name and the folder, which does not exist
 */
export async function makeFolders<Folder extends FunctionFolder>(
  { root, outFolder = 'dist', functions }: FunctionsRequest,
  make: (name: FunctionName, folder: string) => Promise<Folder>,
): Promise<Folder[]> {
  const wanted = functions
    ? Object.entries(functions).map(([name, { handler }]) => bundleOf(name, handler))
    : FUNCTIONS;
  const made = FUNCTIONS.map(async (name) => {
    const folder = join(root, outFolder, name);
    await rm(folder, { recursive: true, force: true });
    return wanted.includes(name) ? [await make(name, folder)] : [];
  });
  return (await Promise.all(made)).flat();
}

/** @param from a folder from which onnxruntime-node can be imported */
export async function addRuntime(folder: string, from: string, processor: Processor): Promise<void> {
  const { resolve } = createRequire(join(from, 'package.json'));
  const target = runtimeFolder(processor);
  const source = join(dirname(resolve(`${RUNTIME}/package.json`)), '..', '..', target);
  for (const name of BINARIES) await copyFixed(join(source, name), join(folder, target, name));
}

export async function copyFixed(source: string, target: string): Promise<void> {
  await mkdir(dirname(target), { recursive: true });
  await copyFile(source, target);
  await fix(target);
}

/** Fixed mode and time, so that the same source gives the same zip. */
export async function fix(path: string): Promise<void> {
  await chmod(path, 0o644);
  await utimes(path, FIXED_TIME, FIXED_TIME);
}

/** Maps `node_modules/@aws-sdk/client-s3/dist/index.js` to @aws-sdk/client-s3, and other files to themselves. */
export function partOf(path: string): string {
  const inside = present(path.split('node_modules/').at(-1), 'path');
  const depth = inside.startsWith('@') ? 2 : 1;
  return inside.split('/').slice(0, depth).join('/');
}
