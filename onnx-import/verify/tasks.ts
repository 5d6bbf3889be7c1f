/** What a verification does with a model, in a process of its own. */
import type { ProbeReport, ProbeRequest } from '../batching/probe.ts';
import { CHECK } from '../check/check.ts';
import type { NodesRequest } from '../classical/compare.ts';
import { PREPARE } from '../process/model-process.ts';
import type { Task } from '../process/task.ts';
import type { PaddingReport, PaddingRequest } from '../text/probe.ts';
import type { RewritesReport, RewritesRequest } from './rewrites.ts';

export const REWRITES: Task<RewritesRequest, RewritesReport> = {
  name: 'rewrites',
  run: async (request) => (await import('./rewrites.ts')).compareRewrites(request),
};

export const NODES: Task<NodesRequest, readonly string[]> = {
  name: 'nodes',
  run: async (request) => (await import('../classical/compare.ts')).compareNodes(request),
};

export const PROBE: Task<ProbeRequest, ProbeReport> = {
  name: 'probe',
  run: async (request) => (await import('../batching/probe.ts')).probeModel(request),
};

export const PADDING: Task<PaddingRequest, PaddingReport> = {
  name: 'padding',
  run: async (request) => (await import('../text/probe.ts')).probePadding(request),
};

/** Loads what every verification asks for. */
export const LOADED: Task<object, object> = {
  name: PREPARE.name,
  run: () => Promise.all([import('./rewrites.ts'), import('../batching/probe.ts')]).then(() => ({})),
};

export const TASKS: readonly Task<never, unknown>[] = [CHECK, REWRITES, NODES, PROBE, PADDING, LOADED];
