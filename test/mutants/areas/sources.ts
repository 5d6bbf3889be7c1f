/** Bugs in what brings a model from elsewhere: copies from S3, and directories of MLflow. */
import type { Suite } from '../mutant.ts';

const SOURCE = 'test/lib/registry/source.test.ts';
const MLFLOW = 'test/convert/import/mlflow.test.ts';

export const SOURCES: readonly Suite[] = [
  {
    file: 'lib/registry/source.ts',
    tests: [SOURCE],
    bugs: [
      {
        guarantee: 'a key never leaves the folder of its copy',
        find: 'if (!isModelPath(name) || join(name) !== name) {',
        replace: 'if (name.length > 256) {',
      },
      {
        guarantee: 'two keys never become one file',
        find: 'if (seen.has(own) || folders.has(own))',
        replace: 'if (seen.has(name))',
      },
      {
        guarantee: 'a model in S3 has at most 16 GiB',
        find: 'if (bytes > MAX_SOURCE_BYTES)',
        replace: 'if (bytes > 1_000 * MAX_SOURCE_BYTES)',
      },
      {
        guarantee: 'a model in S3 has at most 1,000 files',
        find: 'keys.length > MAX_MODEL_FILES',
        replace: 'keys.length > 1_000 * MAX_MODEL_FILES',
      },
      {
        guarantee: 'another content is another copy',
        find: 'const content = JSON.stringify([place.bucket, files]);',
        replace: 'const content = JSON.stringify([place.bucket, keys]);',
      },
    ],
  },
  {
    file: 'lib/s3/objects.ts',
    tests: [SOURCE],
    bugs: [
      {
        guarantee: 'the ETag of an object that is encrypted with a key of KMS is no digest',
        find: 'etagIsDigest: isPlain &&',
        replace: 'etagIsDigest:',
      },
      {
        guarantee: 'the checksum of several parts is no digest',
        find: '/^[\\w+/]{43}=$/.test(ChecksumSHA256)',
        replace: 'true',
      },
    ],
  },
  {
    file: 'convert/mlflow.ts',
    tests: [MLFLOW],
    bugs: [
      {
        guarantee: 'no link leads out of a directory of MLflow',
        find: "if (way !== '..' && !way.startsWith(`..${sep}`) && !isAbsolute(way)) return;",
        replace: "if (way !== '') return;",
      },
      {
        guarantee: 'no path leads out of a directory of MLflow',
        find: "parts.includes('..')",
        replace: "path === '..'",
      },
      {
        guarantee: 'a signature never replaces the names that a model has',
        find: 'return isUnnamed ? { [input.name]: columns } : {};',
        replace: 'return { [input.name]: columns };',
      },
    ],
  },
];
