/** Describes the machine of a measurement. */
import { cpus, totalmem } from 'node:os';

export function machineFacts(threads: number) {
  return {
    cpu: cpus()[0]?.model.trim() || process.arch,
    threads,
    memoryBytes: totalmem(),
    platform: `${process.platform} ${process.arch}`,
    node: process.versions.node,
  };
}
