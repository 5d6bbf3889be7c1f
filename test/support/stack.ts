/** The whole local stack for a test and a config, on free ports and in its own folder, closed after the test. */
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import type { ServedJob } from '../../local/service/runs.ts';
import { type Stack, startStack } from '../../local/service/stack.ts';
import type { TrialOptions } from '../../local/service/trials.ts';
import { parseConfig } from './config.ts';
import { useAws } from './environment.ts';
import { models } from './models.ts';
import { type Hooks, temporaryFolder } from './runner.ts';

export const SAMPLE = fileURLToPath(new URL('../../examples/digits/', import.meta.url));

export interface TestStackOptions {
  /** The text of a config.yaml. */
  readonly config?: string;
  /**
   * Time limit of its functions. May be shorter than config.yaml allows, because returned messages are hidden for six
   * times that.
   */
  readonly functionSeconds?: number;
  readonly modelDirectory?: string;
  /** The folder of further models. */
  readonly modelsDirectory?: string;
  /** Where a worker's code is. */
  readonly directory?: string;
  /** True if changes of a worker's files are watched. */
  readonly watch?: boolean;
  /** Warnings of the parts. */
  readonly warn?: (message: string) => void;
  readonly preferEmbeddedRedis?: boolean;
  readonly dataDir?: string;
  /** True if the Open Inference Protocol is served over gRPC too. */
  readonly hasGrpc?: boolean;
  readonly trials?: TrialOptions;
  /** Jobs beside the first. */
  readonly more?: readonly ServedJob[];
}

export async function testStack(t: Hooks, options: TestStackOptions = {}): Promise<Stack> {
  const job = parseConfig(options.config ?? 'imageResize: 8,8', 'test config');
  const timeoutSeconds = options.functionSeconds ?? job.function.timeoutSeconds;
  const stack = await startStack({
    jobs: [
      {
        job: { ...job, function: { ...job.function, timeoutSeconds } },
        modelDirectory: options.modelDirectory ?? join(SAMPLE, 'model'),
        modelsDirectory: options.modelsDirectory,
        ...(options.directory === undefined ? {} : { directory: options.directory }),
        watch: options.watch,
      },
      ...(options.more ?? []),
    ],
    dataDir: options.dataDir ?? (await temporaryFolder(t, 'cs-stack-')),
    ports: { http: 0, aws: 0, redis: 0, grpc: options.hasGrpc ? 0 : undefined },
    preferEmbeddedRedis: options.preferEmbeddedRedis ?? false,
    modelProcess: models,
    ...(options.trials && { trials: options.trials }),
    log: { info: () => undefined, warn: options.warn ?? (() => undefined), error: console.error },
  });
  t.after(() => stack.close());
  return stack;
}

/** Everything that a client on this machine needs. */
export function clientOptions(stack: Stack) {
  useAws(stack.aws.environment);
  return {
    input: {
      queueUrl: stack.queueUrl,
      endpoint: stack.aws.url,
      region: stack.aws.region,
      frontendUrl: stack.url,
    },
    output: { url: stack.redisUrl },
  };
}
