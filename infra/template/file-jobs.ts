/** The part of a stack for jobs over files, and the events of the bucket, of which notices are the other part. */
import { hasFileJobs, hasTargets, type JobConfig } from '../../lib/config/job.ts';
import { fileJobsPrefix, outboxPrefix } from '../../lib/contract/names.ts';
import { deadLetterQueueName, fileJobQueueName } from '../../lib/queue/names.ts';

/** Read in serverless.yml and infra/stack/jobs/. @param queue the name of the queue of records */
export function fileJobSettings(job: JobConfig, queue: string) {
  const name = fileJobQueueName(queue);
  return {
    fileJobQueueName: name,
    fileJobDeadLetterQueueName: deadLetterQueueName(name),
    fileJobsPrefix: fileJobsPrefix(job.jobName),
    // osls checks the function also where the stack does not have it.
    fileJobConcurrency: Math.max(2, job.jobs.maximumConcurrency),
    fileJobRights: rightsOf(job.jobs.buckets),
  };
}

/** Read in infra/stack/bucket-events/. */
export function bucketEventSettings(job: JobConfig) {
  const queues = [
    ...(hasTargets(job) ? [{ queue: 'NotifyQueue', prefix: outboxPrefix(job.jobName) }] : []),
    ...(hasFileJobs(job) ? [{ queue: 'JobsQueue', prefix: `${fileJobsPrefix(job.jobName)}in/` }] : []),
  ];
  return {
    bucketEventPolicies: queues.map(({ queue }) => `${queue}Policy`),
    bucketEvents: queues.map(({ queue, prefix }) => ({
      Event: 's3:ObjectCreated:*',
      Queue: { 'Fn::GetAtt': [queue, 'Arn'] },
      Filter: { S3Key: { Rules: [{ Name: 'prefix', Value: prefix }] } },
    })),
  };
}

/** IAM takes no empty list: without other buckets, the right to list the job's own is there again. */
function rightsOf(buckets: readonly string[]) {
  const arns = buckets.map((name) => ({ 'Fn::Sub': `arn:\${AWS::Partition}:s3:::${name}` }));
  const own = { 'Fn::GetAtt': ['Bucket', 'Arn'] };
  const list = {
    Sid: 'FindFiles',
    Effect: 'Allow',
    Action: 's3:ListBucket',
    Resource: arns.length > 0 ? arns : own,
  };
  if (arns.length === 0) return [list];
  return [
    list,
    {
      Sid: 'ReadAndWriteFiles',
      Effect: 'Allow',
      Action: ['s3:GetObject', 's3:PutObject'],
      Resource: arns.map((arn) => ({ 'Fn::Sub': `${arn['Fn::Sub']}/*` })),
    },
  ];
}
