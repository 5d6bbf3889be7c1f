/** The defaults of schema.ts without its texts, for functions. `npm run docs` writes this file. */
// biome-ignore-all format: one line for each group
export const DEFAULTS = {
  modelPath: "model",
  jobName: "serving_stream",
  postProcessing: "",
  inputAlreadyBatched: false,
  batchSize: 32,
  batching: "proven",
  inputs: {},
  outputs: {},
  threadPerModel: 0,
  processes: 1,
  modelRefreshSeconds: 30,
  resultTtlSeconds: 86400,
  notify: {},
  image: {},
  import: {},
  queue: {"batchSize":10,"windowSeconds":0,"maximumConcurrency":10,"maxReceiveCount":5,"retentionSeconds":345600,"recordTtlSeconds":0},
  function: {"memoryMB":1769,"timeoutSeconds":30},
  http: {"tokenBucketEnabled":false,"tokensPerSecond":100,"tokenAcquireTimeoutMs":100,"corsOrigins":[],"allowedHosts":[]},
  worker: {"modelName":"","numWorker":1,"batchGroupTimeout":5,"deviceMap":[-1],"gpuMemoryFraction":0.2,"protocol":"obj","logName":"WKRServer","verbose":false,"predictTimeout":30000,"startTimeout":120000,"stopTimeout":30000,"maxBatches":0,"memoryMB":0,"python":"python3","allowImgHost":[],"numWorkerExpanded":0,"deviceToExpand":0,"busyUtilThreshold":0.95,"durationExpand":300000,"durationSqueeze":600000},
} as const;
