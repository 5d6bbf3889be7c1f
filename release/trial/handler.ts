/** The function `trials`: looks at the versions on trial, each minute (watch.ts). It is not in `functions`, because it does what a push does. */
import { lambdaHandler } from '../../lib/compose/handler.ts';
import { composeTrials, watch } from './function.ts';

export const handler = lambdaHandler('schedule', watch, composeTrials);
