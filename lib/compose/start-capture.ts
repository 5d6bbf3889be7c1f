/** Starts capturing. A file apart from the slot, so that functions without a model hold nothing of it. */
import { isCapturing } from '../contract/capture.ts';
import { captureSlot } from './capture-slot.ts';
import type { Scope } from './scope.ts';

/** Captures what this environment answers, if its job does. */
export function startCapture(scope: Scope): void {
  const { job } = scope.environment;
  if (!isCapturing(job.capture) || job.worker.class !== undefined) return;
  const slot = scope.get(captureSlot);
  // Both functions of a single machine share the scope.
  if (!slot.opening) slot.fill(import('./capture.ts').then(({ openCapture }) => openCapture(scope)));
}
