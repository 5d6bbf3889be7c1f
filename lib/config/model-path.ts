/** Where a config's `modelPath` leads. Apart from what copies a model, because that loads the client of S3. */
import { resolve } from 'node:path';

/** True for what names a place in S3, if perhaps not well. */
export function isInS3(path: string): boolean {
  return /^s3:/i.test(path);
}

/** An address in S3 unchanged, another path from the folder of the config. */
export function resolveModelPath(directory: string, modelPath: string): string {
  return isInS3(modelPath) ? modelPath : resolve(directory, modelPath);
}
