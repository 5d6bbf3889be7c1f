/** Every mutant. One for each stated guarantee, limit, time to live and condition of the Lua scripts. */
import { CONTRACT } from './areas/contract.ts';
import { PIPELINE } from './areas/pipeline.ts';
import { REDIS } from './areas/redis.ts';
import { REDIS_SCRIPTS } from './areas/redis-scripts.ts';
import { type Mutant, mutantsOf } from './mutant.ts';

export const MUTANTS: readonly Mutant[] = mutantsOf([...CONTRACT, ...PIPELINE, ...REDIS_SCRIPTS, ...REDIS]);
