/** Every mutant. One for each stated guarantee, limit, time to live and condition of the Lua scripts. */
import { CALLERS } from './areas/access.ts';
import { ANSWERS } from './areas/answers.ts';
import { AWS } from './areas/aws.ts';
import { BATCHING } from './areas/batching.ts';
import { CLIENTS } from './areas/clients.ts';
import { CODECS } from './areas/codecs.ts';
import { CONSOLE_PAGE } from './areas/console.ts';
import { CONTRACT } from './areas/contract.ts';
import { COST } from './areas/cost.ts';
import { DECENTRAL } from './areas/decentral.ts';
import { EMBEDDED_REDIS } from './areas/embedded-redis.ts';
import { HTTP } from './areas/http.ts';
import { LARGE_RESULTS } from './areas/large-results.ts';
import { LOCAL } from './areas/local.ts';
import { PIPELINE } from './areas/pipeline.ts';
import { PYTHON_CLIENT } from './areas/python.ts';
import { REDIS } from './areas/redis.ts';
import { REDIS_SCRIPTS } from './areas/redis-scripts.ts';
import { SOURCES } from './areas/sources.ts';
import { TENSORFLOW_SERVING } from './areas/tensorflow-serving.ts';
import { TEXT } from './areas/text.ts';
import { WORKER_ACCEPTANCE } from './areas/worker-acceptance.ts';
import { WORKER_HTTP } from './areas/worker-http.ts';
import { WORKERS } from './areas/workers.ts';
import { type Mutant, mutantsOf } from './mutant.ts';

export const MUTANTS: readonly Mutant[] = mutantsOf([
  ...CONTRACT,
  ...CODECS,
  ...PIPELINE,
  ...ANSWERS,
  ...BATCHING,
  ...REDIS_SCRIPTS,
  ...TEXT,
  ...REDIS,
  ...AWS,
  ...HTTP,
  ...TENSORFLOW_SERVING,
  ...LARGE_RESULTS,
  ...LOCAL,
  ...COST,
  ...CONSOLE_PAGE,
  ...WORKERS,
  ...WORKER_HTTP,
  ...WORKER_ACCEPTANCE,
  ...DECENTRAL,
  ...EMBEDDED_REDIS,
  ...CLIENTS,
  ...CALLERS,
  ...SOURCES,
  ...PYTHON_CLIENT,
]);
