/** The programs of a deployment, each loaded by the process that runs it. `bundle.ts` makes one script of all of them. */

export const PROGRAMS = {
  batch: () => import('../../../functions/batch.ts'),
  'dead-letter': () => import('../../../functions/dead-letter.ts'),
  notifier: () => import('../../../functions/notifier.ts'),
  jobs: () => import('../../../functions/jobs.ts'),
  predict: () => import('../../../functions/predict.ts'),
  predictions: () => import('../../../functions/predictions.ts'),
  status: () => import('../../../functions/status.ts'),
  trials: () => import('../../../release/trial/handler.ts'),
  isolated: () => import('../../../lib/compose/isolated-process.ts'),
  client: () => import('./client.ts'),
  bridge: () => import('./bridge.ts'),
  operator: () => import('./operator.ts'),
  redis: () => import('./redis.ts'),
  lab: () => import('./lab.ts'),
};
