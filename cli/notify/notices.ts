/** The notices of a service that is elsewhere. */
import { deadLetterQueueName, notifyQueueName } from '../../lib/queue/names.ts';
import { openSqs } from '../../lib/queue/sender.ts';
import { openS3 } from '../../lib/s3/client.ts';
import { Notices } from '../../local/console/notices.ts';

export interface NoticePlace {
  readonly job: string;
  readonly bucket: string;
  /** The queue of the records; the others are named after it. */
  readonly queueUrl: string;
  readonly endpoint?: string | undefined;
  readonly region?: string | undefined;
}

/** @param work gets the notices, with connections that end after it */
export async function withNotices<T>(
  { job, bucket, queueUrl: records, endpoint, region }: NoticePlace,
  work: (notices: Notices) => Promise<T>,
): Promise<T> {
  const [sqs, s3] = [openSqs({ endpoint, region }), openS3({ endpoint, region })];
  const queueUrl = notifyQueueName(records);
  try {
    return await work(
      new Notices({ sqs, s3, job, bucket, queueUrl, deadLetterUrl: deadLetterQueueName(queueUrl) }),
    );
  } finally {
    sqs.destroy();
    s3.destroy();
  }
}
