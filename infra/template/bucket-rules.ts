/** When S3 removes objects of the bucket by itself. Models never expire. */
import { hasFileJobs, hasTargets, type JobConfig } from '../../lib/config/job.ts';
import { isCapturing } from '../../lib/contract/capture.ts';
import { fileJobsPrefix, uploadPrefix } from '../../lib/contract/names.ts';

/** Read in infra/stack/bucket.yml. */
export function bucketRules(
  job: Pick<JobConfig, 'jobName' | 'notify' | 'capture' | 'jobs' | 'resultTtlSeconds'>,
) {
  const expiring = (id: string, days: number, prefix = `${id}/`) => ({
    Id: id,
    Status: 'Enabled',
    Prefix: prefix,
    ExpirationInDays: days,
  });
  return [
    expiring('dead-letters', 30),
    // A message is dead-lettered at most 14 days after it was sent; its payload must outlive it, or replay fails.
    expiring('payloads', 45),
    // They outlive their pointers in Redis. S3 counts whole days, from the midnight after.
    expiring('large-results', Math.ceil(job.resultTtlSeconds / 86_400) + 1, 'results/'),
    {
      Id: 'torn-uploads',
      Status: 'Enabled',
      AbortIncompleteMultipartUpload: { DaysAfterInitiation: 1 },
    },
    // They are read within minutes, or never. Of two rules S3 takes the shorter one.
    expiring('uploads', 1, uploadPrefix(job.jobName)),
    // Notices are sent again for a day, and given up ones stay in their queue for 14.
    ...(hasTargets(job) ? [expiring('outbox', 15)] : []),
    // The state of jobs over files; dropped files and results stay.
    ...(hasFileJobs(job) ? [expiring('jobs', 30, `${fileJobsPrefix(job.jobName)}run/`)] : []),
    // Those of a job that captures no longer are purged by hand.
    ...(isCapturing(job.capture) ? [expiring('captures', job.capture.days)] : []),
  ];
}

/** Pages of other origins upload bodies from a browser. Read in infra/stack/bucket.yml. */
export function bucketCors({ http }: Pick<JobConfig, 'http'>) {
  if (http.corsOrigins.length === 0) return { Ref: 'AWS::NoValue' };
  const upload = { AllowedMethods: ['PUT'], AllowedHeaders: ['x-amz-checksum-sha256', 'content-type'] };
  return { CorsRules: [{ AllowedOrigins: http.corsOrigins, ...upload, MaxAge: 3_600 }] };
}
