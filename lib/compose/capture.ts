/** Composes what captures requests and records. */
import { randomUUID } from 'node:crypto';
import { answerSettings } from '../config/job.ts';
import { Capture } from '../observe/capture.ts';
import { CaptureWriter } from '../s3/captures.ts';
import { onnxSettings } from './model.ts';
import { observers } from './observers.ts';
import { s3Client } from './s3.ts';
import type { Scope } from './scope.ts';

export async function openCapture(scope: Scope): Promise<Capture> {
  const { job, bucket, inLambda } = scope.environment;
  const id = randomUUID().slice(0, 8);
  const writer = new CaptureWriter(scope.get(s3Client), { bucket, now: Date.now, id });
  return new Capture({
    ...job.capture,
    now: Date.now,
    isFrozen: inLambda,
    onLost: (records) => scope.get(observers).capturesLost?.(records),
    async put({ model, version, lines, lost }) {
      // Loaded with the model, which has answered.
      const { RUNTIME } = await import('./onnx.ts');
      const runtime = { ...RUNTIME, threads: scope.get(onnxSettings).threads };
      const header = {
        capture: 1,
        job: job.jobName,
        model,
        version,
        settings: answerSettings(job),
        runtime,
        lost,
      } as const;
      await writer.put(header, lines);
    },
  });
}
