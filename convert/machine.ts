/** Describes the machine of a measurement. */
import { cpus, totalmem } from 'node:os';
import type { MachineFacts } from './import-report.ts';

export function machineFacts(threads: number): MachineFacts {
  return {
    cpu: cpus()[0]?.model.trim() || process.arch,
    threads,
    memoryBytes: totalmem(),
    platform: `${process.platform} ${process.arch}`,
    node: process.versions.node,
  };
}
