/** In place of store.ts in the bundles of a deployment with `results=dynamodb`. */
export {
  connect,
  openLimiter,
  openReplacer,
  openResults,
  openRunCounts,
  openStates,
  openSums,
  resultLimit,
} from '../table/store.ts';
