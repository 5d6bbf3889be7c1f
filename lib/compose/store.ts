/**
 * The store of results that a service has: lib/results/store.ts says what one does. The bundles of a deployment with
 * `results=dynamodb` have table-store.ts in its place, so that each has one client only (infra/build/functions.ts).
 */
export {
  connect,
  openLimiter,
  openReplacer,
  openResults,
  openRunCounts,
  openStates,
  openSums,
  resultLimit,
} from '../redis/store.ts';
