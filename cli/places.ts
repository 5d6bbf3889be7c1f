/** Formats the addresses of a running service. */
import { exportLines, type StackRecord } from '../local/service/data-folder.ts';

export function placesText(record: StackRecord): string {
  const redis = record.redis === 'redis-server' ? `redis-server ${record.redisVersion}` : 'embedded';
  return [
    `process ${record.pid}`,
    ...record.jobs.flatMap(({ job, model, modelNotes, http, queueUrl }) => [
      `job ${job}, model version ${model}`,
      ...modelNotes.map((note) => `  model   ${note}`),
      `  http    ${http}`,
      `  queue   ${queueUrl}`,
    ]),
    ...(record.grpc === undefined ? [] : [`  grpc    ${record.grpc}`]),
    `  redis   ${record.redisUrl} (${redis})`,
    `  bucket  s3://${record.bucket}`,
    ...(record.log === undefined ? [] : [`  log     ${record.log}`]),
    ...(record.curl === undefined ? [] : [`  call    ${record.curl}`]),
    ...exportLines(record),
  ].join('\n');
}
