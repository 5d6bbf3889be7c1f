/** The store of results that a service has: lib/results/store.ts says what one does. Another store is another line here. */
export {
  connect,
  openLimiter,
  openReplacer,
  openResults,
  openRunCounts,
  openStates,
  openSums,
} from '../redis/store.ts';
