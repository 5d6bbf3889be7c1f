/**
 * The architecture as data: who may import whom, who owns which package, and what may never be loaded. `cruise.ts` turns
 * it into rules of dependency-cruiser; `.oxlintrc.json` holds what an import does not show, such as clocks and lengths.
 * A path is a file, or a folder that ends in a slash.
 */

/**
 * The parts of the repository, from the bottom up. A part imports the parts below it; it imports neither the parts above
 * it nor its neighbours of the same level. Types count. Every source file belongs to exactly one part.
 */
export const LEVELS: readonly (readonly string[])[] = [
  ['lib/contract/errors.ts'],
  ['lib/contract/tensor.ts'],
  ['lib/contract/'],
  ['lib/codecs/'],
  ['lib/pipeline/'],
  ['lib/contract/log.ts', 'lib/config/'],
  ['lib/metrics/', 'lib/s3/', 'lib/model/', 'lib/queue/', 'lib/results/'],
  ['lib/http/', 'lib/client/'],
  ['sdk/index.ts'],
  ['functions/'],
  // Above functions: what a person runs once to bring a model is never part of a deployed function.
  ['convert/'],
  ['infra/'],
  ['local/'],
  ['cli/'],
  ['examples/'],
  ['bench/'],
  ['test/'],
];

export interface Edge {
  readonly from: string;
  readonly to: string;
}

/** Imports that a part may make although the levels forbid them. */
export const CROSSINGS: readonly Edge[] = [
  { from: 'lib/model/', to: 'lib/s3/' },
  { from: 'lib/queue/', to: 'lib/s3/' },
  { from: 'lib/results/', to: 'lib/metrics/' },
];

/** Folders that import nothing of this repository but what is listed here, and themselves. */
export const ONLY: readonly { readonly from: string; readonly to: readonly string[] }[] = [
  { from: 'examples/', to: ['sdk/index.ts'] },
];

/** Folders whose files do not import each other, and the files that all of them may share. */
export const SEPARATE: readonly { readonly folder: string; readonly shared: readonly string[] }[] = [
  { folder: 'functions/', shared: ['lib/compose/live.ts'] },
];

/** Parts that know no clock, randomness, network or environment. */
export const PURE: readonly string[] = [
  'lib/contract/errors.ts',
  'lib/contract/tensor.ts',
  'lib/contract/',
  'lib/codecs/',
  'lib/pipeline/',
];

/** The only files of those parts that may import modules of Node, and which. */
export const PURE_NODE_MODULES: Readonly<Record<string, readonly string[]>> = {
  'lib/codecs/image/png.ts': ['zlib'],
  // Reads the WebAssembly of libjpeg from its package.
  'lib/codecs/image/libjpeg.ts': ['fs/promises', 'url'],
};

/** Folders in which each outside package has one owner. A package that has no owner is not imported there at all. */
export const OWNED: readonly string[] = ['lib/', 'functions/'];

/** The only places in those folders that may import a package. Importing its types is free everywhere. */
export const OWNERS: Readonly<Record<string, readonly string[]>> = {
  'onnxruntime-node': ['lib/inference/session.ts'],
  '@aws-sdk/client-s3': ['lib/s3/'],
  '@aws-sdk/client-sqs': ['lib/queue/', 'lib/client/'],
  ioredis: ['lib/results/'],
  yaml: ['lib/config/file.ts'],
  '@cornerstonejs/codec-libjpeg-turbo-8bit': ['lib/codecs/image/libjpeg.ts'],
};

/**
 * Folders that run where no devDependency is installed.
 * `local`, `cli` and `infra` join them once what they need has become a dependency.
 */
export const WITHOUT_DEV_DEPENDENCIES: readonly string[] = ['lib/', 'functions/', 'convert/', 'examples/'];

/** Folders that may read `process.env`. Elsewhere lib/config/environment.ts alone reads it, which oxlint checks. */
export const MAY_READ_ENVIRONMENT: readonly string[] = [
  'local/',
  'cli/',
  'infra/',
  'examples/',
  'bench/',
  'test/',
];

export interface Entry {
  readonly entry: string;
  readonly packages: readonly string[];
  readonly files?: readonly string[];
}

/** What an entry file never loads, through however many files. An import() does not load until it is called. */
export const UNREACHABLE: readonly Entry[] = [
  { entry: 'functions/predict.ts', packages: ['@aws-sdk/client-sqs', 'ioredis', 'yaml'] },
  { entry: 'functions/batch.ts', packages: ['@aws-sdk/client-sqs', 'yaml'] },
  {
    entry: 'functions/predictions.ts',
    packages: ['onnxruntime-node', '@aws-sdk/client-s3', '@aws-sdk/client-sqs', 'ioredis', 'yaml'],
  },
  { entry: 'functions/status.ts', packages: ['onnxruntime-node', '@aws-sdk/client-sqs', 'yaml'] },
  { entry: 'functions/dead-letter.ts', packages: ['onnxruntime-node', '@aws-sdk/client-sqs', 'yaml'] },
  {
    entry: 'sdk/index.ts',
    packages: ['onnxruntime-node', '@aws-sdk/client-s3', 'yaml'],
    files: ['lib/config/environment.ts', 'lib/config/file.ts'],
  },
];

/** Folders whose files may stand alone, because a person runs them; so may declaration files. */
export const MAY_BE_ORPHANS: readonly string[] = ['examples/'];

/** Where the argument of an import() may be computed. No tool sees what such an import() loads. */
export const MAY_COMPUTE_IMPORTS: readonly string[] = [
  'bench/',
  'test/',
  // Loads the bundle of a TypeScript file that it has just written.
  'infra/typescript.cjs',
  // Replaces a part of fauxqs that the package does not export.
  'local/aws/storage.ts',
];

/**
 * Violations that exist today, each as it is reported. A new one fails the test, and so does one that is listed here but
 * no longer found: remove it then. A cycle starts at its alphabetically first file.
 */
export const KNOWN: readonly string[] = [
  // What bench and tests share belongs in a folder that both may import.
  'layer:bench: bench/growth/models.ts -> test/support/onnx.ts',
  'layer:bench: bench/images.ts -> test/support/png.ts',
  'layer:bench: bench/models.ts -> test/support/onnx.ts',
  'layer:bench: bench/processes/cold-function.ts -> test/long/runtime-api.ts',
  'layer:bench: bench/scenarios/cold.ts -> test/infra/tls.ts',
  'layer:bench: bench/scenarios/zip.ts -> test/infra/packaging.ts',
  // Cycles of which at least one import is a type.
  'no-cycle: bench/growth/curve.ts -> bench/growth/growth.ts -> bench/growth/curve.ts',
  'no-cycle: convert/tensorflow/ops/kernels.ts -> convert/tensorflow/ops/rule.ts -> convert/tensorflow/ops/layout.ts -> convert/tensorflow/ops/kernels.ts',
  'no-cycle: convert/tensorflow/ops/kernels.ts -> convert/tensorflow/ops/rule.ts -> convert/tensorflow/ops/random.ts -> convert/tensorflow/ops/kernels.ts',
  'no-cycle: convert/tensorflow/ops/random.ts -> convert/tensorflow/ops/rule.ts -> convert/tensorflow/ops/random.ts',
  // onnx.ts loads fence.ts by import(); fence.ts names a type of onnx.ts.
  'no-cycle: lib/inference/isolated-runner.ts -> lib/inference/runner.ts -> lib/inference/isolated-runner.ts',
  // `npm start` and the CLI read config.yaml with it; it is to become a dependency.
  'no-dev-dependency: lib/config/file.ts -> yaml',
  // They run on this project's onnxruntime-node; their own package.json lists what is compared.
  'no-undeclared-package: bench/peers/bullmq/program.mjs -> onnxruntime-node',
  'no-undeclared-package: bench/peers/fastify/server.mjs -> onnxruntime-node',
];
