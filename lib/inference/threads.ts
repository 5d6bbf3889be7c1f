/** Lambda gives one vCPU per 1,769 MB; more threads than vCPUs cost latency and print affinity errors. */
export function threadsForMemory(memoryMB: number): number {
  return Math.max(1, Math.floor(memoryMB / 1769));
}

interface ThreadFacts {
  /** The setting of the job; 0 for one per vCPU. */
  readonly threadPerModel: number;
  readonly cpus?: number | undefined;
  readonly memoryMB: number;
}

/** Threads of one run. */
export function threadsOf({ threadPerModel, cpus, memoryMB }: ThreadFacts): number {
  return threadPerModel || (cpus ?? threadsForMemory(memoryMB));
}
