/**
 * How the code of predict, batch and jobs reaches Lambda: as a zip each, or together as a container image when the worker is
 * in Python, because Lambda's Node runtime has no Python. A function cannot change from one to the other, so those of
 * an image have another name: a job that gets a Python worker gets new functions, and keeps its queue and its results.
 */
import type { Language } from '../../lib/workers/command.ts';
import type { Deployment } from './parameters.ts';

/** Packaging writes what the image is built from here, relative to the service's folder. */
export const IMAGE_FOLDER = '.serverless/worker-image';

/** The image's name in `provider.ecr.images` of osls. */
const IMAGE = 'worker';
const PLATFORMS = { x86_64: 'linux/amd64', arm64: 'linux/arm64' } as const;

interface FunctionCode {
  readonly name: string;
  readonly handler?: string;
  readonly image?: { readonly name?: string; readonly uri?: string; readonly command: readonly string[] };
}

export interface WorkerCode {
  readonly code: Readonly<Record<'predict' | 'batch' | 'jobs', FunctionCode>>;
  /** The images that osls builds with docker when it deploys. */
  readonly images: Readonly<Record<string, unknown>>;
}

interface Names {
  readonly service: string;
  readonly stage: string;
  readonly language: Language | undefined;
}

export function workerCode(
  { workerImage, arch }: Pick<Deployment, 'workerImage' | 'arch'>,
  { service, stage, language }: Names,
): WorkerCode {
  const isImage = language === 'python';
  const source = workerImage === '' ? { name: IMAGE } : { uri: workerImage };
  const of = (name: string): FunctionCode => {
    const handler = `dist/${name}/index.handler`;
    const plain = `${service}-${stage}-${name}`;
    if (!isImage) return { name: plain, handler };
    return { name: `${plain}-py`, image: { ...source, command: [handler] } };
  };
  // Lambda refuses the list of manifests that docker makes for a provenance.
  const build = { path: IMAGE_FOLDER, platform: PLATFORMS[arch], provenance: 'false' };
  return {
    code: { predict: of('predict'), batch: of('batch'), jobs: of('jobs') },
    images: isImage && workerImage === '' ? { [IMAGE]: build } : {},
  };
}
