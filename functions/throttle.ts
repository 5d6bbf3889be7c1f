/** Slows the queues of a job down while its budget is used up (lib/pipeline/throttle.ts): it looks each minute. */
import { lambdaHandler } from '../lib/compose/handler.ts';
import { composeThrottle } from '../lib/compose/throttle.ts';
import { throttle } from '../lib/pipeline/throttle.ts';

export const handler = lambdaHandler('schedule', throttle, composeThrottle);
