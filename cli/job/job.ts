/** `cluster-serving job`: answers the rows of files with the model of a service. */
import { openS3 } from '../../lib/s3/client.ts';
import { JobPlace } from '../../local/console/job-place.ts';
import { defineCommand, only, wrongUse } from '../command.ts';
import { findService, JOB, notRunning, SERVICE_OPTIONS } from '../service.ts';
import { cancelJob, listJobs, printResults, resumeJob, showJob } from './jobs.ts';
import { runJob } from './run.ts';

export const command = defineCommand({
  name: 'job',
  usage: ['<run | list | status | results | cancel | resume> [file, folder, s3://… or id] [options]'],
  about: `Answers each row of NDJSON, CSV or Parquet, and each picture, with the model of a service, into one file of JSON lines
in S3, in the order of the rows. A row that cannot be answered has its error in its place. The functions do the work:
closing this terminal ends nothing.`,
  actions: {
    run: [
      '<file, folder or s3://bucket/prefix/>',
      'upload what is on this machine, begin a job, and watch it',
    ],
    list: ['', 'show jobs and how far they are'],
    status: ['<id>', 'show how far a job is, and how it ended'],
    results: ['<id>', 'print the lines of a job that is done'],
    cancel: ['<id>', 'end a job; it writes no results'],
    resume: ['<id>', 'let a job go on that was cancelled or has failed; what is answered stays'],
  },
  options: {
    ...only(['run'], {
      out: {
        value: 's3://…/',
        about:
          'prefix for results.ndjson and summary.json, where nothing is yet (default: below jobs/ in the bucket of the service)',
      },
      format: {
        choices: ['ndjson', 'csv', 'parquet', 'picture'],
        about: 'what all files are (default: what the ending of each name says)',
      },
      'dry-run': { about: 'count the rows, answer the first ones, estimate the cost, and write nothing' },
      detach: { about: 'print the id of the job, and do not watch it' },
    }),
    ...only(['run', 'resume'], {
      'max-errors': {
        value: 'count or %',
        about: 'end the job at more errors than that: 100, or 1% of all rows',
      },
    }),
    ...SERVICE_OPTIONS,
    bucket: { group: 'Connection', value: 'name', about: 'bucket of another service' },
    job: JOB,
  },
  examples: [
    'job run customers.csv --dry-run',
    'job run s3://my-data/night/ --out s3://my-data/answers/2026-11-29/ --max-errors 1%',
    'job results 20261129-033000-3f9a1c > answers.ndjson',
    'job status 20261129-033000-3f9a1c --stack cluster-serving-images-prod',
  ],
  async run(values, output, [target, surplus], action) {
    const isList = action === 'list';
    if (surplus !== undefined || (isList && target !== undefined))
      throw wrongUse(`job ${action}: unexpected ${JSON.stringify(surplus ?? target)}`);
    if (!isList && target === undefined)
      throw wrongUse(`job ${action}: which ${action === 'run' ? 'file, folder or s3://…' : 'id'}?`);
    const service = await findService(values);
    if (!service) return notRunning(values, output, '--stack, or --bucket with --job');
    const { job, bucket, endpoint, region } = service;
    if (bucket === undefined) throw wrongUse('job: which service? Give --stack, or --bucket with --job');
    const s3 = openS3({ endpoint, region });
    const place = new JobPlace(s3, bucket, job, endpoint !== undefined);
    const name = target ?? '';
    try {
      if (action === 'list') return await listJobs(place, output);
      if (action === 'status') return await showJob(place, name, output);
      if (action === 'results') return await printResults(place, name, output);
      if (action === 'cancel') return await cancelJob(place, name, output);
      if (action === 'resume') return await resumeJob(place, name, values['max-errors'], output);
      const { out, format, detach = false, 'dry-run': dryRun = false, 'max-errors': maxErrors } = values;
      return await runJob(place, { target: name, out, format, detach, dryRun, maxErrors }, output);
    } finally {
      s3.destroy();
    }
  },
});
