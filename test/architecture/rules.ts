/**
 * The architecture as data: who may import whom, who owns which package, and what may never be loaded. `cruise.ts` turns
 * it into rules of dependency-cruiser; `.oxlintrc.json` holds what an import does not show, such as clocks and lengths.
 * A path is a file, or a folder that ends in a slash.
 */

/**
 * The parts of the repository, from the bottom up. A part imports the parts below it; it imports neither the parts above
 * it nor its neighbours of the same level. Types count. Every source file belongs to exactly one part; where a part lies
 * within another, its files are its own.
 */
export const LEVELS: readonly (readonly string[])[] = [
  ['lib/contract/'],
  ['lib/codecs/'],
  ['lib/pipeline/'],
  // The path of the rows of files, beside what measures that of records.
  ['lib/jobs/', 'lib/metrics/'],
  // The contract of a store of results; lib/redis is one.
  ['lib/results/'],
  // Calls of AWS without its SDK.
  ['lib/aws/'],
  // The owners: each knows one thing outside of this process, and none imports a neighbour, except for CROSSINGS.
  [
    'lib/config/',
    'lib/inference/',
    'lib/notify/',
    'lib/observe/',
    'lib/queue/',
    'lib/redis/',
    'lib/registry/',
    'lib/s3/',
    'lib/table/',
    'lib/text/',
    'lib/trace/',
    'lib/workers/',
  ],
  // Turns the declarations of routes into a document; no function loads any of it.
  ['lib/openapi/'],
  ['lib/http/'],
  ['lib/compose/'],
  // The page /console runs in a browser; console/api.ts, jobs.ts and captures.ts are what it shares with local and cli.
  ['functions/', 'sdk/', 'embedded-redis/', 'console/'],
  // A compiler, from the bytes of files up to the walk of an import. Never part of a deployed function.
  ['onnx-import/wire/'],
  ['onnx-import/graph/'],
  ['onnx-import/onnx/'],
  ['onnx-import/files/'],
  ['onnx-import/samples/'],
  ['onnx-import/batching/'],
  ['onnx-import/process/'],
  ['onnx-import/check/', 'onnx-import/classical/', 'onnx-import/text/'],
  ['onnx-import/verify/'],
  ['onnx-import/vision/'],
  ['onnx-import/source/'],
  ['onnx-import/emit/'],
  ['onnx-import/formats/'],
  ['onnx-import/report/'],
  ['onnx-import/python/'],
  ['onnx-import/import/'],
  ['onnx-import/'],
  // The checks that a version passes before it serves; they ask the model through the functions.
  ['release/'],
  ['infra/', 'local/'],
  ['cli/'],
  ['examples/'],
  // Shared by bench and tests.
  ['test/support/'],
  // The generator of the references.
  ['bench/', 'docs/'],
  ['test/'],
];

export interface Edge {
  readonly from: string;
  readonly to: string;
}

/** Imports that a part may make although the levels forbid them. */
export const CROSSINGS: readonly Edge[] = [
  { from: 'lib/registry/', to: 'lib/s3/' },
  { from: 'lib/observe/', to: 'lib/trace/' },
  // A process that ends with its parent, and onnxruntime.
  { from: 'lib/workers/', to: 'lib/inference/' },
];

/** The parts that onnx-import and the service both need: types, limits and errors, images, rows and texts, sessions, the files of a model. */
const ONNX_IMPORT_SHARES: readonly string[] = [
  'lib/registry/image-file.ts',
  'lib/contract/',
  'lib/codecs/',
  'lib/config/defaults.ts',
  'lib/config/file.ts',
  'lib/config/import-values.ts',
  'lib/config/value.ts',
  'lib/inference/',
  'lib/pipeline/batch/',
  'lib/pipeline/bind/cast.ts',
  'lib/pipeline/bind/image-choice.ts',
  'lib/registry/download-folder.ts',
  'lib/registry/digest.ts',
  'lib/registry/file-window.ts',
  'lib/registry/names.ts',
  'lib/registry/onnx-file.ts',
  'lib/text/',
];

/**
 * Parts that import nothing of this repository but what is listed here, and themselves. lib/compose is the only part of
 * lib and functions that sees more than one owner; the SDK composes itself, because it must not load settings.
 */
export const ONLY: readonly { readonly from: string; readonly to: readonly string[] }[] = [
  { from: 'lib/openapi/', to: ['lib/contract/', 'lib/codecs/', 'lib/pipeline/', 'lib/metrics/'] },
  {
    from: 'lib/http/',
    to: ['lib/contract/', 'lib/codecs/', 'lib/pipeline/', 'lib/metrics/', 'lib/openapi/'],
  },
  {
    from: 'functions/',
    to: [
      'lib/contract/',
      'lib/codecs/',
      'lib/pipeline/',
      'lib/metrics/',
      'lib/http/',
      'lib/compose/',
      // The path of a notice, as lib/pipeline is that of a record.
      'lib/notify/notifier.ts',
      // And that of the rows of a file.
      'lib/jobs/serve.ts',
    ],
  },
  {
    from: 'sdk/',
    to: [
      'lib/contract/',
      'lib/codecs/',
      'lib/pipeline/',
      'lib/queue/',
      'lib/redis/',
      'lib/results/',
      'lib/s3/',
      'lib/workers/hard-worker.ts',
      'lib/workers/onnx-worker.ts',
      'lib/contract/worker-values.ts',
    ],
  },
  { from: 'embedded-redis/', to: ['lib/contract/'] },
  { from: 'onnx-import/', to: ONNX_IMPORT_SHARES },
  { from: 'console/', to: [] },
  { from: 'examples/', to: ['sdk/index.ts', 'sdk/http.ts', 'sdk/worker.ts'] },
  // The tests of a store ask through the contract alone.
  {
    from: 'test/lib/results/conformance.ts',
    to: ['test/lib/results/conformance/', 'lib/results/store.ts', 'test/support/runner.ts'],
  },
  {
    from: 'test/lib/results/conformance/',
    to: [
      'lib/contract/',
      'lib/pipeline/',
      'lib/metrics/',
      'lib/results/',
      'test/support/enqueue.ts',
      'test/support/fast-check.ts',
      'test/support/large-results.ts',
      'test/support/until.ts',
    ],
  },
];

/** Parts that few may import. */
export const IMPORTED_BY: readonly { readonly part: string; readonly importers: readonly string[] }[] = [
  { part: 'embedded-redis/', importers: ['local/', 'bench/', 'test/'] },
  // Code that needs results takes them from lib/results, so that another store is a folder beside it.
  {
    part: 'lib/redis/',
    importers: ['lib/compose/store.ts', 'sdk/redis-results.ts', 'local/bridge/', 'test/'],
  },
  { part: 'lib/table/', importers: ['lib/compose/table-store.ts', 'test/'] },
  // The service sees the entries of onnx-import alone: index.ts, options.ts, process.ts, inputs.ts and protobuf.ts.
  ...LEVELS.flat()
    .filter((part) => /^onnx-import\/./.test(part))
    .map((part) => ({ part, importers: ['onnx-import/', 'test/'] })),
];

/** Folders whose files do not import each other. */
export const SEPARATE: readonly string[] = ['functions/'];

/** Where three files may begin with the same word. Elsewhere that word is a folder. */
export const MAY_SHARE_A_PREFIX: readonly string[] = [
  // The names of the commands.
  'cli/bin/',
];

/** Parts that know no clock, randomness, network or environment, but for the log and the one file that reads variables. */
export const PURE: readonly string[] = ['lib/contract/', 'lib/codecs/', 'lib/pipeline/'];

/** The only files of those parts that may import modules of Node, and which. */
export const PURE_NODE_MODULES: Readonly<Record<string, readonly string[]>> = {
  // Follows an invocation, for the ids of its lines.
  'lib/contract/log.ts': ['async_hooks'],
  'lib/codecs/image/png.ts': ['zlib'],
  'lib/codecs/image/samples.ts': ['zlib'],
  // A signature is a pure function of what is signed.
  'lib/codecs/sigv4.ts': ['crypto'],
  // Reads the WebAssembly of libjpeg and libwebp from their packages.
  'lib/codecs/image/webassembly.ts': ['fs/promises'],
};

/** Folders in which each outside package has one owner. A package that has no owner is not imported there at all. */
export const OWNED: readonly string[] = ['lib/', 'functions/', 'test/lib/results/conformance/'];

/** The only places in those folders that may import a package. Importing its types is free everywhere. */
export const OWNERS: Readonly<Record<string, readonly string[]>> = {
  'onnxruntime-node': ['lib/inference/session.ts'],
  '@aws-sdk/client-s3': ['lib/s3/'],
  '@aws-sdk/lib-storage': ['lib/s3/upload.ts'],
  '@aws-sdk/client-sqs': ['lib/queue/'],
  ioredis: ['lib/redis/'],
  yaml: ['lib/config/file.ts'],
  hyparquet: ['lib/jobs/parquet.ts'],
  '@huggingface/tokenizers': ['lib/text/library.ts'],
  '@cornerstonejs/codec-libjpeg-turbo-8bit': ['lib/codecs/image/libjpeg.ts'],
};

/** Folders that run where no devDependency is installed. */
export const WITHOUT_DEV_DEPENDENCIES: readonly string[] = [
  'lib/',
  'functions/',
  'sdk/',
  'onnx-import/',
  'release/',
  'embedded-redis/',
  'console/',
  'local/',
  'cli/',
  'infra/',
  'examples/',
];

/** Folders that may read `process.env`. Elsewhere lib/contract/variables.ts alone reads it, which oxlint checks. */
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

/** Modules that an entry file never loads, through however many files. An import() does not load until it is called. */
export const UNREACHABLE: readonly Entry[] = [
  ...['predict', 'batch', 'predictions', 'status', 'dead-letter', 'notifier', 'jobs', 'throttle'].map(
    (name) => ({
      entry: `functions/${name}.ts`,
      packages: [],
      files: [
        // Only where spans have a receiver.
        'lib/trace/',
        'lib/observe/spans.ts',
        'lib/compose/traced.ts',
        // The texts of all routes. The bundler drops those of its own (test/infra/bundles.system.test.ts).
        'lib/http/routes/lists/declarations.ts',
        'lib/openapi/document.ts',
        'lib/openapi/page.ts',
      ],
    }),
  ),
  {
    entry: 'functions/predict.ts',
    packages: ['@aws-sdk/client-sqs', '@aws-sdk/lib-storage', 'ioredis', 'yaml'],
  },
  { entry: 'functions/batch.ts', packages: ['@aws-sdk/client-sqs', '@aws-sdk/lib-storage', 'yaml'] },
  {
    entry: 'functions/predictions.ts',
    packages: [
      'onnxruntime-node',
      '@aws-sdk/client-s3',
      '@aws-sdk/client-sqs',
      '@aws-sdk/lib-storage',
      'ioredis',
      'yaml',
    ],
  },
  {
    entry: 'functions/status.ts',
    packages: ['onnxruntime-node', '@aws-sdk/client-sqs', '@aws-sdk/lib-storage', 'yaml'],
  },
  {
    entry: 'functions/dead-letter.ts',
    packages: ['onnxruntime-node', '@aws-sdk/client-sqs', '@aws-sdk/lib-storage', 'yaml'],
  },
  {
    entry: 'functions/notifier.ts',
    packages: ['onnxruntime-node', 'ioredis', '@aws-sdk/lib-storage', 'yaml'],
  },
  // Parquet is loaded for its files.
  { entry: 'functions/jobs.ts', packages: ['ioredis', '@aws-sdk/lib-storage', 'hyparquet', 'yaml'] },
  {
    entry: 'functions/throttle.ts',
    packages: [
      'onnxruntime-node',
      '@aws-sdk/client-s3',
      '@aws-sdk/client-sqs',
      '@aws-sdk/lib-storage',
      'ioredis',
      'yaml',
    ],
  },
  // A job without a budget loads nothing that counts.
  ...['predict', 'batch', 'predictions', 'status', 'dead-letter'].map((name) => ({
    entry: `functions/${name}.ts`,
    packages: [],
    files: [
      'lib/compose/budget.ts',
      'lib/observe/budget.ts',
      'lib/observe/spending.ts',
      'lib/metrics/cost.ts',
      'lib/contract/prices.ts',
    ],
  })),
  // A job without targets loads nothing that announces.
  ...['batch', 'dead-letter'].map((name) => ({
    entry: `functions/${name}.ts`,
    packages: [],
    files: ['lib/results/announce.ts', 'lib/s3/outbox.ts', 'lib/notify/'],
  })),
  {
    entry: 'sdk/index.ts',
    packages: [
      'onnxruntime-node',
      '@aws-sdk/client-cloudformation',
      '@aws-sdk/client-s3',
      '@aws-sdk/credential-provider-node',
      '@aws-sdk/lib-storage',
      '@smithy/signature-v4',
      'yaml',
    ],
    files: ['lib/config/'],
  },
  // Only where a port is given.
  { entry: 'local/start.ts', packages: ['@grpc/grpc-js'] },
  // It speaks HTTP only.
  {
    entry: 'sdk/worker-client.ts',
    packages: [
      'onnxruntime-node',
      '@aws-sdk/client-cloudformation',
      '@aws-sdk/client-s3',
      '@aws-sdk/client-sqs',
      '@aws-sdk/credential-provider-node',
      '@aws-sdk/lib-storage',
      '@smithy/signature-v4',
      'ioredis',
      'yaml',
    ],
    files: ['lib/config/', 'lib/workers/'],
  },
];

/** Folders whose files may stand alone, because a person runs them; so may declaration files. */
export const MAY_BE_ORPHANS: readonly string[] = ['examples/'];

/** Where the argument of an import() may be computed. No tool sees what such an import() loads. */
export const MAY_COMPUTE_IMPORTS: readonly string[] = [
  'bench/',
  'test/',
  // Reads the routes of which it writes the lists.
  'docs/reference/generate/routes.ts',
  // Loads the bundle of a TypeScript file that it has just written.
  'infra/load.cjs',
  // Loads the code of icodec that belongs to its .wasm file, which the package does not export.
  'lib/codecs/image/webp/decode.ts',
  // Loads the user's worker.
  'lib/workers/load.ts',
  // Replaces a part of fauxqs that the package does not export.
  'local/aws/storage.ts',
];

/**
 * Violations that exist today, in the form in which they are reported. A new one fails the test, and so does one that
 * is listed here but no longer found: remove it then. A cycle starts at its alphabetically first file.
 */
export const KNOWN: readonly string[] = [
  // They run on this project's onnxruntime-node; their own package.json lists what is compared.
  'no-undeclared-package: bench/peers/bullmq/program.mjs -> onnxruntime-node',
  'no-undeclared-package: bench/peers/bunqueue/program.mjs -> onnxruntime-node',
  'no-undeclared-package: bench/peers/fastify/server.mjs -> onnxruntime-node',
];
