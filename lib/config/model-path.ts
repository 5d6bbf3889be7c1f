/** Where a config's `modelPath` leads. Apart from what copies a model, because that loads a client. */
import { resolve } from 'node:path';

/** True for what names a place in S3, if perhaps not well. */
export function isInS3(path: string): boolean {
  return /^s3:/i.test(path);
}

/** True for what names a model of the hub of Hugging Face, if perhaps not well. */
export function isInHub(path: string): boolean {
  return /^hf:/i.test(path);
}

/** True for what must be copied onto this machine first. */
export function isRemote(path: string): boolean {
  return isInS3(path) || isInHub(path);
}

/** An address is left as it is; another path starts at the folder of the config. */
export function resolveModelPath(directory: string, modelPath: string): string {
  return isRemote(modelPath) ? modelPath : resolve(directory, modelPath);
}

/** `hf://org/name@revision/path` */
export interface HubAddress {
  /** `org/name` */
  readonly repo: string;
  /** A branch, a tag or a commit. */
  readonly revision: string;
  /** The file that is meant where a repository has several models. */
  readonly file: string | undefined;
}

const HUB_ADDRESS =
  /^hf:\/\/([\w-][\w.-]{0,95}\/[\w-][\w.-]{0,95})(?:@(refs\/(?:pr|convert)\/[\w.-]{1,100}|[\w.%-]{1,200}))?(?:\/([^\0\\]{1,256}))?$/;
/** Names under which the hub has other things than models. */
const NO_MODELS = /^(datasets|spaces|buckets)\//;

/** Undefined for what names no model. In a revision, `%2F` stands for `/`, as in the addresses of huggingface_hub. */
export function readHubAddress(text: string): HubAddress | undefined {
  const [, repo, revision = 'main', file] = HUB_ADDRESS.exec(text) ?? [];
  if (repo === undefined || NO_MODELS.test(repo) || repo.includes('..')) return undefined;
  if (file !== undefined && !file.split('/').every(isPlainName)) return undefined;
  return { repo, revision: revision.replaceAll(/%2f/gi, '/'), file };
}

const isPlainName = (name: string) => /^(?!\.{1,2}$)[\w. -]+$/.test(name);
