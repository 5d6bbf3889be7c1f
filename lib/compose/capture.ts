/** Composes what captures requests and records. */
import { randomUUID } from 'node:crypto';
import { answerSettings } from '../config/job.ts';
import { threadsOf } from '../inference/threads.ts';
import { Capture } from '../observe/capture.ts';
import { CaptureWriter } from '../s3/captures.ts';
import { s3Client } from './s3.ts';
import type { Scope } from './scope.ts';

export async function openCapture(scope: Scope): Promise<Capture> {
  const { job, bucket, cpus, memoryMB, inLambda } = scope.environment;
  const id = randomUUID().slice(0, 8);
  const writer = new CaptureWriter(scope.get(s3Client), { bucket, now: Date.now, id });
  return new Capture({
    ...job.capture,
    now: Date.now,
    isFrozen: inLambda,
    async put({ version, lines, lost }) {
      // Loaded with the model, which has answered.
      const { RUNTIME } = await import('./onnx.ts');
      const runtime = { ...RUNTIME, threads: threadsOf({ ...job, cpus, memoryMB }) };
      const header = {
        capture: 1,
        job: job.jobName,
        version,
        settings: answerSettings(job),
        runtime,
        lost,
      } as const;
      await writer.put(header, lines);
    },
  });
}
