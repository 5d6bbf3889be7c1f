/** Lambda gives one vCPU per 1,769 MB; more threads than vCPUs cost latency and print affinity errors. */
export function threadsForMemory(memoryMB: number): number {
  return Math.max(1, Math.floor(memoryMB / 1769));
}
