/** What can be wrong with the model, functions and archives, and what only looks wrong; for test/infra/doctor/doctor.deploy.test.ts. */
import { type Case, importReport, type QuietCase } from './draft.ts';

const MB = 1024 * 1024;

export const FUNCTIONS_CASES: readonly Case[] = [
  {
    rule: 'model-missing',
    name: 'no model directory',
    severity: 'warning',
    found: /^no directory \/nowhere$/,
    change: ({ facts }) => {
      facts.model = { state: 'missing', directory: '/nowhere' };
    },
  },
  {
    rule: 'model-missing',
    name: 'no model directory in prod',
    severity: 'error',
    stage: 'prod',
    found: /^no directory \/nowhere$/,
    change: ({ facts }) => {
      facts.model = { state: 'missing', directory: '/nowhere' };
    },
  },
  {
    rule: 'model-remote',
    name: 'a model in S3',
    severity: 'info',
    found: /^s3:\/\/bucket\/prefix$/,
    change: ({ facts }) => {
      facts.model = { state: 'remote', directory: 's3://bucket/prefix' };
    },
  },
  {
    rule: 'model-unusable',
    name: 'two models',
    severity: 'error',
    found: /^expected one model, found 2/,
    change: ({ facts }) => {
      facts.model = { state: 'unusable', directory: '/m', problem: 'expected one model, found 2' };
    },
  },
  {
    rule: 'model-foreign',
    name: 'a Caffe model, imported on the way',
    severity: 'info',
    found: /a Caffe model/,
    change: (draft) => draft.model({ kind: 'caffe' }),
  },
  {
    rule: 'model-import-report',
    name: 'an import report that cannot be read',
    severity: 'warning',
    found: /no JSON/,
    change: (draft) => draft.model({ importReportProblem: 'no JSON' }),
  },
  {
    rule: 'model-import-report',
    name: 'an import report of another file',
    severity: 'warning',
    found: /^model\.onnx has \d+ bytes$/,
    change: (draft) => draft.model({ importReport: importReport({ modelFileBytes: 7 }) }),
  },
  {
    rule: 'model-large',
    name: 'two gigabytes',
    severity: 'warning',
    found: /^2048\.0 MB$/,
    change: (draft) => draft.model({ bytes: 2048 * MB }),
  },
  {
    rule: 'memory-onnxruntime',
    name: '256 MB',
    severity: 'warning',
    found: /^256 MB$/,
    change: (draft) => draft.set('BatchLambdaFunction', 'MemorySize', 256),
  },
  {
    rule: 'memory-onnxruntime',
    name: '256 MB, without a template',
    severity: 'warning',
    found: /^256 MB$/,
    change: (draft) => {
      draft.withoutTemplate();
      draft.job({ function: { memoryMB: 256, timeoutSeconds: 30 } });
    },
  },
  {
    rule: 'memory-onnxruntime',
    name: '256 MB, in an image',
    severity: 'warning',
    found: /^256 MB$/,
    change: (draft) => {
      draft.set('BatchLambdaFunction', 'Code', { ImageUri: '1.dkr.ecr.r.amazonaws.com/i@sha256:0' });
      draft.set('BatchLambdaFunction', 'ImageConfig', { Command: ['dist/batch/index.handler'] });
      draft.set('BatchLambdaFunction', 'MemorySize', 256);
    },
  },
  {
    rule: 'package-image',
    name: 'an image that a deployment is to build',
    severity: 'info',
    found: /^the image is not built yet$/,
    change: (draft) => draft.set('PredictLambdaFunction', 'Code', { ImageUri: { Ref: 'WorkerImage' } }),
  },
  {
    rule: 'model-large',
    name: 'two gigabytes of a worker',
    severity: 'warning',
    found: /^2048\.0 MB$/,
    change: ({ facts }) => {
      facts.model = { state: 'unneeded', directory: '/m', bytes: 2048 * MB };
    },
  },
  {
    rule: 'memory-model',
    name: 'less than the import report says',
    severity: 'error',
    found: /^1769 MB$/,
    change: (draft) => draft.model({ importReport: importReport({ memoryMB: 2048 }) }),
  },
  {
    rule: 'memory-model',
    name: 'a model that is larger than the memory',
    severity: 'error',
    found: /^1769 MB$/,
    change: (draft) => draft.model({ bytes: 1700 * MB }),
  },
  {
    rule: 'ephemeral-storage',
    name: 'no room for a second version',
    severity: 'warning',
    found: /^512 MB, and the model is 300\.0 MB$/,
    change: (draft) => draft.model({ bytes: 300 * MB }),
  },
  {
    rule: 'ephemeral-storage',
    name: 'no room for the model, without a template',
    severity: 'error',
    found: /^512 MB, and the model is 600\.0 MB$/,
    change: (draft) => {
      draft.withoutTemplate();
      draft.model({ bytes: 600 * MB });
    },
  },
  {
    rule: 'tracing',
    name: 'X-Ray off in prod',
    severity: 'info',
    stage: 'prod',
    found: /X-Ray is off/,
    change: (draft) => draft.parameters({ tracing: 'off' }),
  },
  {
    rule: 'provisioned-concurrency',
    name: 'ten environments all month',
    severity: 'info',
    found: /^10 environments, 45,399,727 GB-seconds a month$/,
    change: (draft) => draft.parameters({ provisioned: '10' }),
  },
  {
    rule: 'package-zip-size',
    name: 'over our own 20 MB',
    severity: 'warning',
    found: /^21\.0 MB$/,
    change: (draft) => draft.archive('batch', { bytes: 21 * MB }),
  },
  {
    rule: 'package-zip-size',
    name: "over Lambda's 50 MB",
    severity: 'error',
    found: /^51\.0 MB$/,
    change: (draft) => draft.archive('batch', { bytes: 51 * MB }),
  },
  {
    rule: 'package-unzipped-size',
    name: 'all of onnxruntime-node',
    severity: 'error',
    found: /^294\.0 MB$/,
    change: (draft) => draft.archive('predict', { unzippedBytes: 294 * MB }),
  },
  {
    rule: 'package-missing',
    name: 'a function without its archive',
    severity: 'error',
    found: /no status\.zip/,
    change: ({ facts }) => {
      facts.archives = new Map([...(facts.archives ?? [])].filter(([name]) => name !== 'status'));
    },
  },
  {
    rule: 'package-handler',
    name: 'an archive without the handler',
    severity: 'error',
    found: /Handler dist\/status\/index\.handler, and 1 other file in status\.zip/,
    change: (draft) => draft.archive('status', { names: new Set(['index.mjs']) }),
  },
  {
    rule: 'package-onnxruntime',
    name: 'predict without onnxruntime',
    severity: 'error',
    found: /no library of onnxruntime/,
    change: (draft) => draft.archive('predict', { binaries: [] }),
  },
  {
    rule: 'package-onnxruntime',
    name: 'onnxruntime where no model is opened',
    severity: 'warning',
    found: /onnxruntime is inside/,
    change: (draft) =>
      draft.archive('status', { binaries: [{ name: 'onnxruntime_binding.node', processor: 'x86_64' }] }),
  },
  {
    rule: 'package-architecture',
    name: 'binaries of the other processor',
    severity: 'error',
    found: /libonnxruntime\.so\.1.* for x86_64/,
    change: (draft) => draft.set('BatchLambdaFunction', 'Architectures', ['arm64']),
  },
  {
    rule: 'package-architecture',
    name: 'a binary of another system',
    severity: 'error',
    found: /sharp\.node for no Linux/,
    change: (draft) =>
      draft.archive('status', { binaries: [{ name: 'a/sharp.node', processor: 'no Linux' }] }),
  },
  {
    rule: 'arm64-onnxruntime',
    name: 'predict on arm64',
    severity: 'info',
    found: /^arm64$/,
    change: (draft) => draft.parameters({ arch: 'arm64' }),
  },
];

export const FUNCTIONS_QUIET: readonly QuietCase[] = [
  {
    rule: 'ephemeral-storage',
    name: 'a /tmp that was made larger',
    change: (draft) => {
      draft.model({ bytes: 400 * MB });
      for (const name of ['Predict', 'Batch'])
        draft.set(`${name}LambdaFunction`, 'EphemeralStorage', { Size: 1024 });
    },
  },
  {
    rule: 'memory-model',
    name: 'exactly what the import report says',
    change: (draft) => draft.model({ importReport: importReport({ memoryMB: 1769 }) }),
  },
  {
    rule: 'package-architecture',
    name: 'arm64 with binaries of arm64',
    change: (draft) => {
      draft.set('PredictLambdaFunction', 'Architectures', ['arm64']);
      draft.archive('predict', { binaries: [{ name: 'libonnxruntime.so.1', processor: 'arm64' }] });
    },
  },
];
