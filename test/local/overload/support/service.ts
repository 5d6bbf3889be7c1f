/** Runs the service as `npm start` does, with a model that takes as long as each record asks for. */
import { mkdir, readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import type { TestContext } from 'node:test';
import { loopModel } from '../../../support/endless.ts';
import { temporaryFolder } from '../../../support/runner.ts';
import { startReady } from '../../../support/start.ts';

export interface Service {
  readonly url: string;
  readonly redisUrl: string;
  readonly queueUrl: string;
  readonly environment: Readonly<Record<string, string>>;
  /** Resident memory of the process in MB. */
  memoryMb(): Promise<number>;
  /** Its output so far. */
  readonly lines: readonly string[];
}

export const JOB = 'overload';

/** @param config lines of a config.yaml */
export async function startService(t: TestContext, config: readonly string[] = []): Promise<Service> {
  const folder = await temporaryFolder(t, 'cs-overload-');
  await mkdir(join(folder, 'model'));
  await writeFile(join(folder, 'model', 'model.onnx'), loopModel());
  const path = join(folder, 'config.yaml');
  await writeFile(path, [`jobName: ${JOB}`, 'modelPath: model', ...config, ''].join('\n'));
  const started = await startReady(t, '--config', path, '--data-dir', join(folder, 'data'));
  const { http, redisUrl, queueUrl, environment } = started.addresses;
  return {
    url: http.replace('localhost', '127.0.0.1'),
    redisUrl,
    queueUrl,
    environment,
    lines: started.lines,
    async memoryMb() {
      const status = await readFile(`/proc/${started.child.pid}/status`, 'utf8');
      return Number(/VmRSS:\s+(\d+)/.exec(status)?.[1]) / 1024;
    },
  };
}
