/** Bugs in what a million predictions cost. */
import type { Suite } from '../mutant.ts';

export const COST: readonly Suite[] = [
  {
    file: 'cli/tune/cost.ts',
    tests: ['test/cli/tune/cost.test.ts'],
    bugs: [
      {
        guarantee: 'a started millisecond is billed whole',
        find: 'Math.ceil(Number(ms.toFixed(6)))',
        replace: 'Math.round(Number(ms.toFixed(6)))',
      },
      {
        guarantee: 'what starts an environment is not billed as a warm run too',
        find: '(1 - starts.share) * billedMs(ms)',
        replace: 'billedMs(ms)',
      },
      {
        guarantee: 'below one vCPU a run takes longer by the share',
        find: 'ms / Math.min(1, memoryMB / MB_PER_VCPU)',
        replace: 'ms',
      },
      {
        guarantee: 'a function has 128 MB at least',
        find: 'Math.max(LEAST_MEMORY_MB, Math.ceil(peakMB))',
        replace: 'Math.ceil(peakMB)',
      },
    ],
  },
];
