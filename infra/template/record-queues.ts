/** The queues of records in a stack: one, or with `queue.highShare` two, and what both share. */
import { type JobConfig, sharesOf } from '../../lib/config/job.ts';
import { deadLetterQueueName, highQueueName, queueName } from '../../lib/queue/names.ts';

/** Read in serverless.yml and infra/stack/. */
export function queueSettings({ jobName, queue }: JobConfig, stage: string) {
  const name = queueName(jobName, stage);
  const arn = (of: string) => ({
    'Fn::Sub': `arn:\${AWS::Partition}:sqs:\${AWS::Region}:\${AWS::AccountId}:${of}`,
  });
  const high = highQueueName(name);
  const { highShare, maximumConcurrency } = queue;
  const shares = sharesOf(queue, maximumConcurrency, 2);
  const queues = ['Queue', ...(highShare > 0 ? ['HighQueue'] : [])].map((each) => ({
    'Fn::GetAtt': [each, 'Arn'],
  }));
  return {
    queueName: name,
    highQueueName: high,
    deadLetterQueueName: deadLetterQueueName(name),
    maximumConcurrency: shares.normal,
    highConcurrency: shares.high,
    /** The queues of records, for rights. */
    recordQueues: queues.length === 1 ? queues[0] : queues,
    /** By name, because references in both directions would be circular. */
    deadLetterSources: [name, ...(highShare > 0 ? [high] : [])].map(arn),
  };
}
