/** Serves jobs over files (lib/jobs/serve.ts): their own messages, and events of S3 about files that were dropped. */
import { lambdaHandler } from '../lib/compose/handler.ts';
import { composeJobs } from '../lib/compose/jobs.ts';
import { serveJobs } from '../lib/jobs/serve.ts';

export const handler = lambdaHandler('sqs', serveJobs, composeJobs);
