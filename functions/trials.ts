/** Looks at the versions on trial, each minute (release/trial/watch.ts). */
import { lambdaHandler } from '../lib/compose/handler.ts';
import { composeTrials, watch } from '../release/trial/function.ts';

export const handler = lambdaHandler('schedule', watch, composeTrials);
