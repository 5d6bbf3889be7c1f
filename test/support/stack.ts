/** The whole local stack for a test and a config, on free ports and in its own folder, closed after the test. */

import { join } from 'node:path';
import type { TestContext } from 'node:test';
import { fileURLToPath } from 'node:url';
import type { ServedJob } from '../../local/job.ts';
import { type Stack, startStack } from '../../local/stack.ts';
import { parseConfig } from './config.ts';
import { useAws } from './environment.ts';
import { temporaryFolder } from './runner.ts';

export const SAMPLE = fileURLToPath(new URL('../../examples/digits/', import.meta.url));

export interface TestStackOptions {
  /** The text of a config.yaml. */
  readonly config?: string;
  /** Of its functions, also shorter than a config may say: messages that came back are hidden for six times that. */
  readonly functionSeconds?: number;
  readonly modelDirectory?: string;
  readonly preferEmbeddedRedis?: boolean;
  readonly dataDir?: string;
  /** Jobs beside the first. */
  readonly more?: readonly ServedJob[];
}

export async function testStack(t: TestContext, options: TestStackOptions = {}): Promise<Stack> {
  const job = parseConfig(options.config ?? 'imageResize: 8,8', 'test config');
  const timeoutSeconds = options.functionSeconds ?? job.function.timeoutSeconds;
  const stack = await startStack({
    jobs: [
      {
        job: { ...job, function: { ...job.function, timeoutSeconds } },
        modelDirectory: options.modelDirectory ?? join(SAMPLE, 'model'),
      },
      ...(options.more ?? []),
    ],
    dataDir: options.dataDir ?? (await temporaryFolder(t, 'cs-stack-')),
    ports: { http: 0, aws: 0, redis: 0 },
    preferEmbeddedRedis: options.preferEmbeddedRedis ?? false,
    log: { info: () => undefined, warn: () => undefined, error: console.error },
  });
  t.after(() => stack.close());
  return stack;
}

/** What a client on this machine needs. */
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
